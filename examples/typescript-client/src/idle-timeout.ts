/**
 * Aborts a request when nothing arrives for a while. `AbortSignal.timeout` would bound the whole request: a long list, and the
 * time that the caller takes for its orders.
 */
export class IdleTimeout {
  /** For `fetch`. */
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #milliseconds: number;

  constructor(milliseconds: number, signal: AbortSignal | undefined) {
    this.#milliseconds = milliseconds;
    this.signal = AbortSignal.any([this.#controller.signal, ...(signal === undefined ? [] : [signal])]);
  }

  /** Waits for a result of the request, and aborts the request when it takes too long. */
  async wait<T>(result: Promise<T>): Promise<T> {
    const timer = setTimeout(() => {
      this.#controller.abort(new DOMException(`Nothing arrived for ${this.#milliseconds} ms.`, 'TimeoutError'));
    }, this.#milliseconds);
    try {
      return await result;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Yields the chunks of a body. The time that the caller takes between them does not count. */
  async *read(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = body.getReader();
    try {
      for (;;) {
        const { done, value } = await this.wait(reader.read());
        if (done) {
          return;
        }
        yield value;
      }
    } finally {
      await reader.cancel();
    }
  }
}
