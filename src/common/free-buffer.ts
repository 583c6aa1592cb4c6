/** ES2024, in Node 22 and newer. */
type Transferable = ArrayBufferLike & { transfer?(length: number): unknown };

/**
 * Frees the memory behind a buffer that nobody will read again. The garbage collector would keep it for longer: to its
 * heap, a buffer of a megabyte is an object of a few bytes. Does nothing before Node 22, or if the buffer is less than half of
 * its memory, like each buffer in the pool that Node keeps for small ones.
 */
export function freeBuffer({ buffer, length }: Buffer): void {
  // A buffer that has been freed has no length; freeing it again would throw.
  if (length > 0 && length * 2 >= buffer.byteLength) {
    (buffer as Transferable).transfer?.(0);
  }
}
