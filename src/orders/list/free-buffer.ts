/** ES2024, in Node 22 and newer. */
type Transferable = ArrayBufferLike & { transfer?(length: number): unknown };

/** Node's pool for small buffers has some bytes more than its size, for alignment. */
const POOL_BYTES_MAX = Buffer.poolSize + 1_024;

/**
 * Frees the memory behind a buffer that nobody will read again. The garbage collector would keep it for longer: to its
 * heap, a buffer of a megabyte is an object of a few bytes. Does nothing before Node 22, or for a part of Node's pool.
 */
export function freeBuffer({ buffer }: Buffer): void {
  if (buffer.byteLength > POOL_BYTES_MAX) {
    (buffer as Transferable).transfer?.(0);
  }
}
