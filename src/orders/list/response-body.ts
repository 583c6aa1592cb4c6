import type { ServerResponse } from 'node:http';
import { addBodyBytes } from '../../http/response.js';

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
  /** @param stallMs how long the client may take no byte that Node can see before it is disconnected; milliseconds */
  constructor(
    private readonly res: ServerResponse,
    private readonly stallMs: number,
  ) {}

  /**
   * Writes pieces, and resolves when the operating system has all of them, so that their memory may be reused.
   * @throws {ClientDisconnected}
   */
  write(pieces: readonly Buffer[]): Promise<void> {
    return this.#untilTaken((done) => {
      this.#write(pieces, done);
    });
  }

  /**
   * Writes the last pieces and the end of the body in one system call, and resolves when the operating system has all of it.
   * @throws {ClientDisconnected}
   */
  end(pieces: readonly Buffer[]): Promise<void> {
    return this.#untilTaken((done) => {
      this.#write(pieces, () => undefined);
      this.res.end(done);
    });
  }

  /**
   * Node collects what is written in one turn of the event loop into one system call. With `res.cork()`, Node 22 and 24 send
   * the end of the body before its last pieces.
   */
  #write(pieces: readonly Buffer[], done: () => void): void {
    for (const [index, piece] of pieces.entries()) {
      this.res.write(piece, (error) => {
        if (error == null) {
          addBodyBytes(this.res, piece.length);
          if (index === pieces.length - 1) {
            done();
          }
        }
      });
    }
  }

  async #untilTaken(write: (done: () => void) => void): Promise<void> {
    // A connection that is closed already emits no further event.
    if (this.res.destroyed) {
      throw new ClientDisconnected();
    }
    await new Promise<void>((resolve, reject) => {
      const settle = (outcome: () => void): void => {
        clearInterval(timer);
        this.res.off('close', onDisconnected);
        outcome();
      };
      const onDisconnected = (): void => {
        settle(() => {
          reject(new ClientDisconnected());
        });
      };
      let last = this.#taken();
      let unchanged = 0;
      const timer = setInterval(() => {
        const current = this.#taken();
        unchanged = current === last ? unchanged + 1 : 0;
        last = current;
        if (unchanged === CHECKS_PER_STALL || this.res.destroyed) {
          onDisconnected();
        }
      }, this.stallMs / CHECKS_PER_STALL);
      this.res.once('close', onDisconnected);
      write(() => {
        settle(resolve);
      });
    });
  }

  /** Bytes of any response of the connection, because a response behind another one has no socket of its own yet. */
  #taken(): number {
    const { socket } = this.res.req;
    return socket.bytesWritten - socket.writableLength;
  }
}
