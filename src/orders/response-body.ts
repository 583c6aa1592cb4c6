import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { clientProgress } from './client-progress.js';

/** The client closed the connection or took no byte for too long. Nobody can receive an error response. */
export class ClientDisconnected extends Error {
  constructor() {
    super('The client of the response is disconnected.');
    this.name = 'ClientDisconnected';
  }
}

/** Fast rather than small: level 1 makes this list 8 to 10 times smaller, and higher levels cost several times the CPU. */
const GZIP_LEVEL = 1;

/** How often progress is checked within the stall timeout; so a stall is detected at most a quarter of it late. */
const CHECKS_PER_STALL = 4;

/** The body of a response, compressed or not, written at the pace of its client. */
export class ResponseBody {
  readonly #target: Writable;

  /**
   * @param stallMs how long the client may take no byte before it is disconnected; milliseconds
   * @param progress changes whenever the client takes bytes
   */
  constructor(
    private readonly res: ServerResponse,
    private readonly stallMs: number,
    gzip: boolean,
    private readonly progress = () => clientProgress(res.socket),
  ) {
    this.#target = gzip ? createGzip({ level: GZIP_LEVEL }) : res;
    if (this.#target !== res) {
      this.#target.pipe(res);
    }
  }

  /**
   * Accepts bytes at once, whatever the pace; await {@link ready} before the next portion.
   * @param onWritten called when the bytes have been passed on and their memory may be reused
   */
  write(bytes: Buffer, onWritten: () => void = () => undefined): void {
    this.#target.write(bytes, (error) => {
      if (error == null) {
        onWritten();
      }
    });
  }

  /**
   * Resolves when there is room for the next portion.
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
    // A connection that is closed already emits no further event.
    if (this.res.destroyed) {
      throw new ClientDisconnected();
    }
    await new Promise<void>((resolve, reject) => {
      const settle = (outcome: () => void) => (): void => {
        clearInterval(timer);
        emitter.off(event, onEvent);
        this.res.off('close', onDisconnected);
        outcome();
      };
      const onEvent = settle(resolve);
      const onDisconnected = settle(() => {
        reject(new ClientDisconnected());
      });
      let last: string | undefined;
      let unchanged = 0;
      const check = async (): Promise<void> => {
        const current = await this.progress();
        unchanged = current === last ? unchanged + 1 : 0;
        last = current;
        if (unchanged === CHECKS_PER_STALL) {
          onDisconnected();
        }
      };
      const timer = setInterval(() => void check(), this.stallMs / CHECKS_PER_STALL);
      emitter.once(event, onEvent);
      this.res.once('close', onDisconnected);
    });
  }
}
