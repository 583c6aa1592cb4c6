import { randomBytes } from 'node:crypto';
import { crc32, gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import {
  combineCrc32,
  deflate,
  deflateNow,
  GZIP_HEADER,
  gzipTrailer,
  inflate,
} from '../../../../src/orders/list/gzip.js';

it('combineCrc32 equals the CRC-32 of the joined bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 }), (first, second) => {
      expect(combineCrc32(crc32(first), crc32(second), second.length)).toBe(crc32(Buffer.concat([first, second])));
    }),
  );
});

describe('a gzip member', () => {
  it('joins compressed bytes so that zlib reads them', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 500 })), (pieces) => {
        const plain = Buffer.concat(pieces);
        const deflated = pieces.map((data) => deflateNow(Buffer.from(data)).deflated);
        const member = Buffer.concat([GZIP_HEADER, ...deflated, gzipTrailer(crc32(plain), plain.length)]);
        expect(gunzipSync(member)).toEqual(plain);
      }),
    );
  });

  it('names the length of more than 4 GiB modulo 2^32 (RFC 1952 section 2.3.1)', () => {
    expect(gzipTrailer(0, 5 * 2 ** 30).readUInt32LE(9)).toBe(2 ** 30);
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
