import { randomBytes } from 'node:crypto';
import { deflate, inflate } from '../../../../src/orders/list/deflate.js';

/** Text that compresses to a half or a little less, like the hexadecimal digits that it consists of. */
const text = (bytes: number): Buffer => Buffer.from(randomBytes(bytes / 2).toString('hex'));

describe('deflate', () => {
  it('returns chunks without spare memory, whatever the size of those before them', async () => {
    for (const plain of [text(1_000_000), text(1_000_000), Buffer.alloc(1_000_000), text(900_000), text(40_000)]) {
      const chunk = await deflate(plain);
      expect(chunk.deflated.buffer.byteLength).toBeLessThanOrEqual(1.1 * chunk.deflated.length);
      expect(plain.equals(await inflate(chunk))).toBe(true);
    }
  });
});
