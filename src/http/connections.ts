import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { breakConnection } from './response.js';

interface Connection {
  /** Responses that have not ended, in the order of their requests; several when requests are pipelined. */
  readonly pending: ServerResponse[];
  /** The latest request. */
  latest: IncomingMessage | undefined;
  /** A response says that it is the last one: requests behind it are not executed (RFC 9112 section 9.6). */
  isEnding: boolean;
}

/** The open connections of an HTTP server and their pending responses, so that a stop loses none and no error takes the place of one. */
export class Connections {
  readonly #open = new Map<Socket, Connection>();
  #isDraining = false;
  #isClosing = false;

  /** @param keptAliveMax while more connections are open, each ends with its next response */
  constructor(private readonly keptAliveMax: number) {}

  /** Call before the server listens. */
  watch(server: Server): void {
    server.on('connection', (socket) => {
      const connection: Connection = { pending: [], latest: undefined, isEnding: false };
      this.#open.set(socket, connection);
      socket.once('close', () => {
        this.#open.delete(socket);
        // Node tells the response that is being sent, and not those behind it.
        setImmediate(() => {
          for (const res of [...connection.pending]) {
            res.emit('close');
          }
        });
      });
    });
  }

  /** Adds a pending response. @returns whether to execute its request: false behind a response that ends the connection */
  begin(req: IncomingMessage, res: ServerResponse): boolean {
    const { socket } = req;
    const connection = this.#open.get(socket);
    if (connection?.isEnding !== false || !socket.writable) {
      return false;
    }
    const { pending } = connection;
    pending.push(res);
    connection.latest = req;
    res.once('close', () => {
      pending.splice(pending.indexOf(res), 1);
      this.#endIfIdle(socket, connection);
    });
    if (this.#isDraining || this.#open.size > this.keptAliveMax || isLast(req)) {
      endAfterLast(connection);
    }
    return true;
  }

  /** Whether an error response would be read as the response to a request that is executed, or has one already. */
  isBusy(socket: Socket): boolean {
    const { pending = [], latest } = this.#open.get(socket) ?? {};
    return pending.length > 0 || latest?.complete === false;
  }

  /**
   * From now on each connection ends with its last pending response or, if the headers of that have been sent or none is pending, with
   * the next one: its client may have sent a request already.
   */
  startDraining(): void {
    this.#isDraining = true;
    for (const connection of this.#open.values()) {
      endAfterLast(connection);
    }
  }

  /** Ends each connection as soon as it has no pending response, whatever part of a request it has sent. */
  endIdle(): void {
    this.#isClosing = true;
    for (const [socket, connection] of this.#open) {
      this.#endIfIdle(socket, connection);
    }
  }

  /** Cuts the responses that are pending. None of them looks complete. */
  cut(): void {
    for (const { latest } of this.#open.values()) {
      if (latest !== undefined) {
        breakConnection(latest);
      }
    }
  }

  #endIfIdle(socket: Socket, connection: Connection): void {
    if (this.#isClosing && connection.pending.length === 0) {
      connection.isEnding = true;
      socket.destroySoon();
    }
  }
}

/**
 * Whether nothing that was sent behind a request is executed. Node would execute it, although it closes the connection (HTTP/1.0, an
 * expectation), or loses it (an upgrade). Of any other transfer coding than chunked, and of that in HTTP/1.0, a proxy may see another end
 * than Node (RFC 9112 section 6.1), and take for a body what Node takes for a request.
 */
function isLast({ httpVersion, headers }: IncomingMessage): boolean {
  const { expect, upgrade, 'transfer-encoding': coding = 'chunked' } = headers;
  return httpVersion !== '1.1' || expect !== undefined || upgrade !== undefined || coding !== 'chunked';
}

function endAfterLast(connection: Connection): void {
  const last = connection.pending.at(-1);
  if (last?.headersSent === false) {
    last.setHeader('Connection', 'close');
    connection.isEnding = true;
  }
}
