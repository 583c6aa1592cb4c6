import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Socket } from 'node:net';

const PENDING_RESPONSES = Symbol('answers under way');

/**
 * A connection with its answers that have not ended, more than one where requests are pipelined. Kept by connection: one
 * set of all answers would be made anew by V8 every few dozen requests, and each that it leaves behind keeps the answers that
 * were in it alive until the next full garbage collection.
 */
type Connection = Socket & { [PENDING_RESPONSES]: ServerResponse[] };

/** The connections of a server, and what is still to be answered on each. */
export class Connections {
  readonly #open = new Set<Connection>();
  /** Connections that are closed after a refusal, because it is in doubt where the refused request ends. */
  readonly #distrusted = new WeakSet<Socket>();
  #draining = false;

  /** Call before the server listens. */
  watch(server: Server): void {
    server.on('connection', (connection: Connection) => {
      connection[PENDING_RESPONSES] = [];
      this.#open.add(connection);
      connection.once('close', () => {
        this.#open.delete(connection);
        // Node tells only the answer whose turn it is that its connection is gone; for those behind it that is the end too.
        setImmediate(() => {
          for (const res of [...connection[PENDING_RESPONSES]]) {
            res.emit('close');
          }
        });
      });
    });
  }

  /**
   * Keeps an answer until it has ended or its connection has.
   * @param ended called then, once
   */
  begin(res: ServerResponse, ended: (() => void) | undefined): void {
    const pendingResponses = (res.req.socket as Connection)[PENDING_RESPONSES];
    pendingResponses.push(res);
    res.once('close', () => {
      pendingResponses.splice(pendingResponses.indexOf(res), 1);
      ended?.();
    });
    if (this.#draining) {
      res.setHeader('Connection', 'close');
    }
  }

  /** The answers that have not ended, in the order of their requests. Typed for HTTP over anything; ours is over sockets. */
  pendingResponsesOn(connection: Duplex): readonly ServerResponse[] {
    return [...(connection as Connection)[PENDING_RESPONSES]];
  }

  /** From here on every answer tells its client to close the connection. */
  startDraining(): void {
    this.#draining = true;
    for (const { [PENDING_RESPONSES]: answers } of this.#open) {
      for (const res of answers) {
        if (!res.headersSent) {
          res.setHeader('Connection', 'close');
        }
      }
    }
  }

  /** Ends the connection with the answer to this request. */
  closeAfterResponse(req: IncomingMessage, res: ServerResponse): void {
    this.#distrusted.add(req.socket);
    res.setHeader('Connection', 'close');
  }

  /** Whether a request came after one that its connection ends with: it is not carried out (RFC 9112 section 9.6). */
  isClosingAfterResponse(req: IncomingMessage): boolean {
    return this.#distrusted.has(req.socket);
  }
}

/** Waits until answers have ended, one way or the other. */
export async function allClosed(answers: readonly ServerResponse[]): Promise<void> {
  await Promise.all(answers.map((res) => new Promise((resolve) => res.once('close', resolve))));
}
