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

/** Counts a chunked body (RFC 9112 section 7.1) by its chunk sizes, without reading the data. */
export class ChunkedBody {
  bytes = 0;
  /** The beginning of an incomplete size line. */
  #line = '';
  /** Bytes of the current chunk that have not arrived, including its line end. */
  #left = 0;
  #last = false;

  /** @returns whether the body is complete; an interrupted stream never is, because it lacks the last chunk */
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
