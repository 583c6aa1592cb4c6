import { randomBytes } from 'node:crypto';
import { deflate, inflate } from '../../../../src/orders/list/deflate.js';
import { freeBuffer } from '../../../../src/orders/list/free-buffer.js';

/** Text that compresses to a half or a little less, like the hexadecimal digits that it consists of. */
const text = (bytes: number): Buffer => Buffer.from(randomBytes(bytes / 2).toString('hex'));

describe('deflate', () => {
  it('returns blocks without spare memory, whatever the size of those before them', async () => {
    for (const plain of [text(1_000_000), text(1_000_000), Buffer.alloc(1_000_000), text(900_000), text(40_000)]) {
      const block = await deflate(plain);
      expect(block.deflated.buffer.byteLength).toBeLessThanOrEqual(1.1 * block.deflated.length);
      expect(plain.equals(await inflate(block))).toBe(true);
    }
  });
});

describe('freeBuffer', () => {
  const owner = Buffer.allocUnsafeSlow(1_000_000);

  it('frees the memory of a buffer where Node can', () => {
    freeBuffer(owner);
    expect(owner.length).toBe('transfer' in ArrayBuffer.prototype ? 0 : 1_000_000);
  });

  it('leaves buffers alone whose memory is a part of the pool of Node', () => {
    const [freed, other] = [Buffer.from('freed'), Buffer.from('other')];
    freeBuffer(freed);
    expect(other.toString()).toBe('other');
  });
});
