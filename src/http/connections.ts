import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { breakConnection } from './response.js';

interface Connection {
  /**
   * Responses that have not ended, in the order of their requests; several when requests are pipelined. Not one set of all connections:
   * V8 keeps its deleted entries alive until the next full collection.
   */
  readonly pending: ServerResponse[];
  /** The latest request, until it has been received completely and its response has ended. */
  latest: IncomingMessage | undefined;
  /** The connection ends with its last pending response: later requests on it are not executed (RFC 9112 section 9.6). */
  isEnding: boolean;
}

/**
 * The open connections of an HTTP server and their pending responses. Node's `server.close()` alone would go on serving requests on
 * connections that are busy, and wait for clients that send nothing.
 */
export class Connections {
  readonly #open = new Map<Socket, Connection>();
  #isDraining = false;
  #isClosing = false;

  /** @param keptAliveMax while more connections are open, each ends with its next response */
  constructor(private readonly keptAliveMax: number) {}

  /** Call before the server listens. */
  watch(server: Server): void {
    server.on('connection', (socket) => {
      const { pending } = this.#add(socket);
      socket.once('close', () => {
        this.#open.delete(socket);
        // Node ends only the response that is being sent; those behind it have lost their connection, too.
        setImmediate(() => {
          for (const res of [...pending]) {
            res.destroy();
            res.emit('close');
          }
        });
      });
    });
  }

  #add(socket: Socket): Connection {
    const connection = { pending: [], latest: undefined, isEnding: false };
    this.#open.set(socket, connection);
    return connection;
  }

  /**
   * Adds a pending response.
   * @returns false when its request must not be executed, because an earlier response ends the connection
   */
  begin(req: IncomingMessage, res: ServerResponse): boolean {
    const { socket } = req;
    const connection = this.#open.get(socket);
    if (connection === undefined || connection.isEnding || !socket.writable) {
      return false;
    }
    const { pending } = connection;
    pending.push(res);
    connection.latest = req;
    res.once('close', () => {
      pending.splice(pending.indexOf(res), 1);
      if (connection.latest === req && req.complete) {
        connection.latest = undefined;
      }
      this.#endIfIdle(socket, connection);
    });
    // Node, too, ends the connection with the response to these, but only after it has executed the requests behind them. It ignores an
    // offer to upgrade, and loses what it has read behind that.
    const { expect, upgrade } = req.headers;
    const isCrowded = this.#open.size > this.keptAliveMax;
    if (this.#isDraining || isCrowded || expect !== undefined || upgrade !== undefined || req.httpVersionMinor === 0) {
      this.endAfter(res);
    }
    return true;
  }

  /** Ends the connection with this response, which must be the last pending one and not have sent its headers. */
  endAfter(res: ServerResponse): void {
    res.setHeader('Connection', 'close');
    const connection = this.#open.get(res.req.socket);
    if (connection !== undefined) {
      connection.isEnding = true;
    }
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
    for (const { pending } of this.#open.values()) {
      const last = pending.at(-1);
      if (last?.headersSent === false) {
        this.endAfter(last);
      }
    }
  }

  /** Ends each connection as soon as it has no pending response, whatever part of a request it has sent. */
  endIdle(): void {
    this.#isClosing = true;
    for (const [socket, connection] of this.#open) {
      this.#endIfIdle(socket, connection);
    }
  }

  /** Cuts the connections that are open. A response that is cut never looks complete. */
  cut(): void {
    for (const [socket, { pending }] of this.#open) {
      if (pending[0] === undefined) {
        socket.destroy();
      } else {
        breakConnection(pending[0].req);
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
