import type { ServerResponse } from 'node:http';
import { addBodyBytes } from '../../http/response.js';
import { clientProgress } from './client-progress.js';

/** The client closed the connection or stopped reading, so it cannot receive an error response. */
export class ClientDisconnected extends Error {
  constructor() {
    super('The client of the response is disconnected.');
    this.name = 'ClientDisconnected';
  }
}

/** How often progress is checked within the stall timeout; so a stall is detected at most a quarter of it late. */
const CHECKS_PER_STALL = 4;

/** The body of a response, written at the pace of its client. */
export class ResponseBody {
  /**
   * @param stallMs how long the client may take no byte before it is disconnected; milliseconds
   * @param progress changes whenever the client takes bytes; by default bytes of any response of the connection, because
   *   a response behind another one has no socket yet
   */
  constructor(
    private readonly res: ServerResponse,
    private readonly stallMs: number,
    private readonly progress = () => clientProgress(res.req.socket),
  ) {}

  /**
   * Writes pieces, and resolves when there is room for more.
   * @param onWritten called when the operating system has all of them and their memory may be reused
   * @throws {ClientDisconnected}
   */
  async write(pieces: readonly Buffer[], onWritten?: () => void): Promise<void> {
    if (this.res.destroyed) {
      throw new ClientDisconnected();
    }
    this.#write(pieces, onWritten);
    if (this.res.writableNeedDrain) {
      await this.#until('drain');
    }
  }

  /**
   * Writes the last pieces and the end of the body in one system call, and resolves when the operating system has all of it.
   * @throws {ClientDisconnected}
   */
  async end(pieces: readonly Buffer[] = []): Promise<void> {
    if (this.res.destroyed) {
      throw new ClientDisconnected();
    }
    this.#write(pieces);
    this.res.end();
    if (!this.res.writableFinished) {
      await this.#until('finish');
    }
  }

  /**
   * Node collects what is written in one turn of the event loop into one system call. With `res.cork()`, Node 22 and 24 send
   * the end of the body before its last pieces.
   */
  #write(pieces: readonly Buffer[], onWritten: () => void = () => undefined): void {
    for (const [index, piece] of pieces.entries()) {
      this.res.write(piece, (error) => {
        if (error == null) {
          addBodyBytes(this.res, piece.length);
          if (index === pieces.length - 1) {
            onWritten();
          }
        }
      });
    }
  }

  async #until(event: 'drain' | 'finish'): Promise<void> {
    // A connection that is closed already emits no further event.
    if (this.res.destroyed) {
      throw new ClientDisconnected();
    }
    await new Promise<void>((resolve, reject) => {
      const settle = (outcome: () => void) => (): void => {
        clearInterval(timer);
        this.res.off(event, onEvent);
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
      this.res.once(event, onEvent);
      this.res.once('close', onDisconnected);
    });
  }
}
