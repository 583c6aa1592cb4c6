import { randomBytes } from 'node:crypto';
import { crc32, gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { combineCrc32, deflate, gzipArrayOf, inflate, inflateSync } from '../../src/orders/list/gzip.js';

it('combineCrc32 equals the CRC-32 of the joined bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 }), (first, second) => {
      expect(combineCrc32(crc32(first), crc32(second), second.length)).toBe(crc32(Buffer.concat([first, second])));
    }),
  );
});

describe('a compressed array', () => {
  it('joins chunks by commas so that zlib reads them as one member', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 500 })), async (pieces) => {
        const { gzip, length } = gzipArrayOf(await Promise.all(pieces.map((bytes) => deflate(Buffer.from(bytes)))));
        const plain = pieces.flatMap((bytes, index) => [...(index === 0 ? [] : [0x2c]), ...bytes]);
        const expected = Buffer.from([0x5b, ...plain, 0x5d]);
        expect(gunzipSync(Buffer.concat(gzip))).toEqual(expected);
        expect(length).toBe(expected.length);
      }),
    );
  });

  it('names the length of more than 4 GiB modulo 2^32 (RFC 1952 section 2.3.1)', () => {
    const { gzip, length } = gzipArrayOf([{ deflated: Buffer.alloc(0), crc: 0, length: 5 * 2 ** 30 }]);
    expect(gzip.at(-1)!.readUInt32LE(4)).toBe(2 ** 30 + 2);
    expect(length).toBe(5 * 2 ** 30 + 2);
  });
});

it('a chunk decompresses to what it was made of, without spare memory, whatever the size of those before it', async () => {
  const digits = (bytes: number): Buffer => Buffer.from(randomBytes(bytes / 2).toString('hex'));
  for (const plain of [digits(1_000_000), Buffer.alloc(1_000_000), digits(900_000), digits(40_000), Buffer.alloc(0)]) {
    const chunk = await deflate(plain);
    expect(chunk.length).toBe(plain.length);
    expect([plain.equals(await inflate(chunk)), plain.equals(inflateSync(chunk))]).toEqual([true, true]);
    // Small ones are a part of the pool of Node.
    expect(chunk.deflated.buffer.byteLength).toBeLessThanOrEqual(1.1 * chunk.deflated.length + Buffer.poolSize);
  }
});
