import { freeBuffer } from '../../../src/common/free-buffer.js';

describe('freeBuffer', () => {
  const owner = Buffer.allocUnsafeSlow(1_000_000);

  it('frees the memory of a buffer where Node can', () => {
    freeBuffer(owner);
    expect(owner.length).toBe('transfer' in ArrayBuffer.prototype ? 0 : 1_000_000);
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
