/** Counts a body of known length. */
export class LengthBody {
  bytes = 0;

  constructor(length) {
    this.length = length;
  }

  /** @returns whether the body is complete */
  take(_buffer, start, end) {
    this.bytes += end - start;
    return this.bytes >= this.length;
  }
}

const NEWLINE = 0x0a;

/** Counts a body in chunks (RFC 9112 section 7.1) by their sizes, without looking at what is inside. */
export class ChunkedBody {
  bytes = 0;
  /** The beginning of a size line that has not arrived as a whole. */
  #line = '';
  /** Bytes of the current chunk that are still to come, its line end included. */
  #left = 0;
  #last = false;

  /** @returns whether the body is complete, which takes the last chunk: a stream that broke off never is */
  take(buffer, start, end) {
    let at = start;
    while (at < end) {
      if (this.#left > 0) {
        const step = Math.min(this.#left, end - at);
        this.#left -= step;
        at += step;
        if (this.#last && this.#left === 0) {
          return true;
        }
        continue;
      }
      const newline = buffer.indexOf(NEWLINE, at);
      if (newline === -1 || newline >= end) {
        this.#line += buffer.latin1Slice(at, end);
        return false;
      }
      const size = parseInt(this.#line + buffer.latin1Slice(at, newline), 16);
      this.#line = '';
      this.bytes += size;
      this.#last = size === 0;
      this.#left = size + 2;
      at = newline + 1;
    }
    return false;
  }
}
