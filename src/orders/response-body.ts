import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { createGzip } from 'node:zlib';

/** The reader took nothing for too long, or went away. There is nobody left to tell. */
export class ClientDisconnected extends Error {
  constructor() {
    super('The reader of the response is lost.');
    this.name = 'ClientDisconnected';
  }
}

/** Fast rather than small: level 1 makes this list 8 to 10 times smaller, and higher levels cost several times the CPU. */
const GZIP_LEVEL = 1;

/** The body of a response, compressed or not, written at the pace of its reader and no slower than `stallMs` allows. */
export class ResponseBody {
  readonly #target: Writable;

  /** @param stallMs how long the reader may take nothing before it is given up; milliseconds */
  constructor(
    private readonly res: ServerResponse,
    private readonly stallMs: number,
    gzip: boolean,
  ) {
    this.#target = gzip ? createGzip({ level: GZIP_LEVEL }) : res;
    if (this.#target !== res) {
      this.#target.pipe(res);
    }
  }

  /**
   * Takes bytes at once, whatever the pace; {@link ready} must be awaited before the next portion.
   * @param onTaken told when the bytes have been passed on and their memory may be used again
   */
  write(bytes: Buffer, onTaken: () => void = () => undefined): void {
    this.#target.write(bytes, (error) => {
      if (error == null) {
        onTaken();
      }
    });
  }

  /**
   * Resolves when the reader has room.
   * @throws {ClientDisconnected}
   */
  async ready(): Promise<void> {
    if (this.res.destroyed) {
      throw new ClientDisconnected();
    }
    if (this.#target.writableNeedDrain) {
      await this.#until(this.#target, 'drain');
    }
  }

  /**
   * Ends the body and resolves when the operating system has all of it.
   * @throws {ClientDisconnected}
   */
  async end(): Promise<void> {
    this.#target.end();
    if (!this.res.writableFinished) {
      await this.#until(this.res, 'finish');
    }
  }

  async #until(emitter: Writable, event: 'drain' | 'finish'): Promise<void> {
    // A connection that is gone already says so no second time.
    if (this.res.destroyed) {
      throw new ClientDisconnected();
    }
    await new Promise<void>((resolve, reject) => {
      const settle = (outcome: () => void) => (): void => {
        clearTimeout(timer);
        emitter.off(event, onEvent);
        this.res.off('close', onLost);
        outcome();
      };
      const onEvent = settle(resolve);
      const onLost = settle(() => {
        reject(new ClientDisconnected());
      });
      const timer = setTimeout(onLost, this.stallMs);
      emitter.once(event, onEvent);
      this.res.once('close', onLost);
    });
  }
}
