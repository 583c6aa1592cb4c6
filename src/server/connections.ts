import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from '../admission/client-address.js';
import { readInSlices } from './reading.js';

const STATE = Symbol('connection state');

/**
 * A connection is not read further while it has this many pending responses, or once this many slices were read while one is pending:
 * otherwise a client that pipelines faster than it is served fills the memory, and others wait until all of its requests have been
 * handled. The rest of a slice is still handled.
 */
const PENDING_MAX = 16;
/** What is read of a body after its response; more would cost others the time that reading it takes. No operation takes one. */
const UNUSED_BODY_MAX_BYTES = 65_536;
/** How long a closed connection stays open for its client to read the last response. Milliseconds. */
const LINGER_MS = 1_000;
/** The same on a connection that was sent more than {@link LONG_BYTES}. Meanwhile nothing is read, and others may take its place. */
const LONG_LINGER_MS = 60_000;
const LONG_BYTES = 65_536;

/**
 * Stored on the connection itself. V8 would rebuild one set of all pending responses every few dozen requests, and each
 * old table keeps the responses that were in it alive until the next full garbage collection.
 */
interface ConnectionState {
  /** Responses that have not ended, in the order of their requests; several when requests are pipelined. */
  readonly pending: ServerResponse[];
  /** Slices that were handed on since the last pending response ended. */
  slices: number;
  /** The latest request, until it has been received completely and its response has ended. */
  latest: IncomingMessage | undefined;
  /** The connection ends with its last pending response: later requests on it are not executed (RFC 9112 section 9.6). */
  closing: boolean;
  /** Nothing more is read. */
  stopped: boolean;
  /** When it was opened or its last response ended; milliseconds. */
  idleSince: number;
  readonly peer: Peer;
  /** Call when it may be read again. */
  readOn: () => unknown;
}

/** A client address, IPv6 by its /64 as in the limits. */
interface Peer {
  readonly name: string;
  connections: number;
}

type Connection = Socket & { [STATE]: ConnectionState };

/** The connections of a server and the pending responses on each. Sockets are those of the watched server. */
export class Connections {
  readonly #open = new Set<Connection>();
  readonly #peers = new Map<string, Peer>();
  #draining = false;
  /** Whether connections without a pending response are closed. */
  #closingIdle = false;

  /**
   * Call before the server listens. Beyond `connectionsMax`, each new connection closes one that waits for its client, of the address
   * with the most connections: the longest idle one or, if none is idle, one whose client does not read its response. So one address
   * cannot exclude the others. The new connection itself is closed when its address has the most and none of them is idle. Each
   * counts as a `drop`, the event of Node's own limit.
   */
  watch(server: Server, connectionsMax: number): void {
    server.on('connection', (connection: Connection) => {
      const state = this.#add(connection);
      connection.once('close', () => {
        this.#remove(connection);
        // Node destroys only the response that is being sent; the connection of those behind it is lost too.
        setImmediate(() => {
          for (const res of [...state.pending]) {
            res.destroy();
            res.emit('close');
          }
        });
      });
      if (this.#open.size > connectionsMax) {
        const dropped = this.#toReplace(connection);
        this.#remove(dropped);
        dropped.destroy();
        server.emit('drop');
      }
    });
  }

  #add(connection: Connection): ConnectionState {
    const name = networkOf(connection.remoteAddress ?? 'unknown');
    const peer = this.#peers.get(name) ?? { name, connections: 0 };
    this.#peers.set(name, peer);
    peer.connections++;
    this.#open.add(connection);
    const idleSince = performance.now();
    const pending: ServerResponse[] = [];
    // Counts each slice that is handed on.
    const readOn = readInSlices(connection, () => !state.stopped && !isFull(state) && ++state.slices > 0);
    const state = { pending, slices: 0, latest: undefined, closing: false, stopped: false, idleSince, peer, readOn };
    // Node calls it after the last response. The client may neither read nor close, and unread input would reset the connection at
    // once (RFC 9112 section 9.6).
    connection.destroySoon = () => {
      connection.end();
      const isLong = connection.bytesWritten > LONG_BYTES && !this.#closingIdle;
      const timer = setTimeout(() => connection.destroy(), isLong ? LONG_LINGER_MS : LINGER_MS).unref();
      connection.once('close', () => {
        clearTimeout(timer);
      });
    };
    return (connection[STATE] = state);
  }

  #remove(connection: Connection): void {
    const { peer } = connection[STATE];
    if (this.#open.delete(connection) && --peer.connections === 0) {
      this.#peers.delete(peer.name);
    }
  }

  /** The connection that is closed for the latest one, perhaps the latest itself. */
  #toReplace(latest: Connection): Connection {
    let found = latest;
    for (const connection of this.#open) {
      if (compareForReplacement(connection, found) < 0 && waitsForClient(connection)) {
        found = connection;
      }
    }
    return found;
  }

  /**
   * Adds a pending response.
   * @returns whether the request may be executed. Node keeps one that may not until its connection ends, so no more are read.
   */
  begin(req: IncomingMessage, res: ServerResponse): boolean {
    const connection = req.socket as Connection;
    const state = connection[STATE];
    if (state.closing || !connection.writable) {
      state.stopped = true;
      return false;
    }
    state.pending.push(res);
    state.latest = req;
    res.once('close', () => {
      state.pending.splice(state.pending.indexOf(res), 1);
      if (state.pending.length === 0) {
        state.slices = 0;
      }
      state.readOn();
      if (state.latest === req && req.complete) {
        state.latest = undefined;
      }
      if (connection.writable && !req.complete && !(Number(req.headers['content-length']) <= UNUSED_BODY_MAX_BYTES)) {
        // Reads no more of the body.
        Object.assign(state, { closing: true, stopped: true });
        connection.destroySoon();
      }
      state.idleSince = performance.now();
      // For a response whose headers were sent before the drain. For all others Node does the same.
      this.#closeIfIdle(connection);
    });
    // Node closes the connection after an expectation and, in HTTP/1.0, after a response of unknown length. It decides that when the
    // response is written, when later requests may have been executed. After an Upgrade it loses what it has read with it.
    const { expect, upgrade } = req.headers;
    if (this.#draining || expect !== undefined || upgrade !== undefined || req.httpVersionMinor === 0) {
      this.closeAfterResponse(req, res);
    }
    return true;
  }

  /** Ends the connection with this response, which must be the last pending one. */
  closeAfterResponse({ socket }: IncomingMessage, res: ServerResponse): void {
    (socket as Connection)[STATE].closing = true;
    if (!res.headersSent) {
      res.setHeader('Connection', 'close');
    }
  }

  /**
   * Whether an error of the parser is to be ignored: on a closing connection, which is ended by its last response and not read further,
   * and a timeout while nothing is read because of the pending responses.
   */
  ignores(socket: Socket, isTimeout: boolean): boolean {
    const state = (socket as Connection)[STATE];
    state.stopped ||= state.closing;
    return state.stopped || (isTimeout && (socket.isPaused() || isFull(state)));
  }

  /**
   * Executes no later request and reads none: after a timeout the parser would go on, and Node would give the connection to the response
   * to the next one. Resolves when the responses that are pending now have ended or their connection is lost.
   * @returns whether what has arrived is in the body of a request that has been handed on, perhaps responded to, already
   */
  async stopReceiving(socket: Socket): Promise<boolean> {
    const state = (socket as Connection)[STATE];
    const { pending, latest } = state;
    const isInBody = latest !== undefined && !latest.complete;
    Object.assign(state, { closing: true, stopped: true });
    await Promise.all(pending.map((res) => new Promise((resolve) => res.once('close', resolve))));
    return isInBody;
  }

  /**
   * From now on each connection ends with its last pending response. It ends with its next one if none is pending, or if the
   * headers of the last one have been sent without `Connection: close`: the client may send a request right after it.
   */
  startDraining(): void {
    this.#draining = true;
    for (const { [STATE]: state } of this.#open) {
      const last = state.pending.at(-1);
      if (last !== undefined && !last.headersSent) {
        this.closeAfterResponse(last.req, last);
      }
    }
  }

  /** Closes each connection as soon as it has no pending response, whatever part of a request it has sent. */
  closeIdle(): void {
    this.#closingIdle = true;
    for (const connection of this.#open) {
      this.#closeIfIdle(connection);
    }
  }

  #closeIfIdle(connection: Connection): void {
    if (this.#closingIdle && connection[STATE].pending.length === 0) {
      connection.destroySoon();
    }
  }
}

/** Whether nothing more is read until responses have ended: each that is pending keeps its request in memory. */
function isFull({ pending, slices }: ConnectionState): boolean {
  return pending.length > 0 && (pending.length >= PENDING_MAX || slices >= PENDING_MAX);
}

/** Whether the service has nothing to do on a connection until its client sends or takes something. */
function waitsForClient(connection: Connection): boolean {
  return connection[STATE].pending.length === 0 || connection.writableLength > 0;
}

/** Negative when the first one is closed before the other. */
function compareForReplacement({ [STATE]: one }: Connection, { [STATE]: other }: Connection): number {
  const fewer = other.peer.connections - one.peer.connections;
  const busier = Math.sign(one.pending.length) - Math.sign(other.pending.length);
  return fewer || busier || one.idleSince - other.idleSince;
}
