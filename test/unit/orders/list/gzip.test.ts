import { randomBytes } from 'node:crypto';
import { crc32, gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { combineCrc32, deflate, freeBuffer, gzipArrayOf, inflate } from '../../../../src/orders/list/gzip.js';

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

/** Text that compresses to a half or a little less, like the hexadecimal digits that it consists of. */
const text = (bytes: number): Buffer => Buffer.from(randomBytes(bytes / 2).toString('hex'));

it('deflate returns chunks without spare memory, whatever the size of those before them', async () => {
  for (const plain of [text(1_000_000), text(1_000_000), Buffer.alloc(1_000_000), text(900_000), text(40_000)]) {
    const chunk = await deflate(plain);
    expect(chunk.deflated.buffer.byteLength).toBeLessThanOrEqual(1.1 * chunk.deflated.length);
    expect(plain.equals(await inflate(chunk))).toBe(true);
  }
});

describe('freeBuffer', () => {
  const owner = Buffer.allocUnsafeSlow(1_000_000);

  it('frees the memory of a buffer, once', () => {
    freeBuffer(owner);
    freeBuffer(owner);
    expect(owner.length).toBe(0);
  });

  it('leaves buffers alone whose memory is a part of the pool of Node', () => {
    for (const size of [1, 5, 100, (Buffer.poolSize >>> 1) - 1]) {
      const [freed, other] = [Buffer.allocUnsafe(size), Buffer.from('other')];
      freeBuffer(freed);
      expect(freed.length).toBe(size);
      expect(other.toString()).toBe('other');
    }
  });
});
