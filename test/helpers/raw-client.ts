import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { waitFor } from './wait-for.js';

/** A response as received on the socket. */
export interface WireResponse {
  readonly version: string;
  readonly status: number;
  /** Values by lower-case name, unchanged and in order; a repeated header has several. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  /** The bytes as sent, compressed or not, as Latin-1. */
  readonly body: string;
}

/** A connection that collects what it receives, also an incomplete response, until the test or the service closes it. */
export class RawClient {
  readonly #received: Buffer[] = [];
  closed = false;

  private constructor(
    readonly socket: Socket,
    private readonly sent: string,
  ) {
    socket.on('data', (chunk: Buffer) => this.#received.push(chunk));
    // A reset also closes the connection.
    socket.on('error', () => undefined);
    socket.on('close', () => (this.closed = true));
  }

  /**
   * @param text sent at once, as Latin-1
   * @param localAddress of the client, to count it against an address of its own
   */
  static async open(port: number, text = '', localAddress = '127.0.0.1'): Promise<RawClient> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    const client = new RawClient(socket, text);
    await once(socket, 'connect');
    if (text !== '') {
      socket.write(text, 'latin1');
    }
    return client;
  }

  /** All bytes that the server has sent, as Latin-1. */
  get received(): string {
    return Buffer.concat(this.#received).toString('latin1');
  }

  /** The complete responses. */
  get responses(): WireResponse[] {
    const methods = Array.from(this.sent.matchAll(/^([A-Z]+) \S+ HTTP\/1/gm), ([, method = '']) => method);
    return parseResponses(this.received, this.closed, methods);
  }

  /** Whether the first response says its length. */
  get hasLength(): boolean {
    return /^content-length: \d/im.test(this.received);
  }

  /** Waits for the first bytes of the response, and reads no more until `socket.resume()`. */
  async stall(): Promise<void> {
    await once(this.socket, 'data');
    this.socket.pause();
  }

  /** Reads what follows, also after {@link stall}, until the connection is closed. */
  async readToEnd(): Promise<void> {
    this.socket.resume();
    await this.untilClosed();
  }

  async untilClosed(): Promise<void> {
    await waitFor(() => this.closed, 'the service closes the connection');
  }
}

/** Parses the complete responses at the start of what was received, including interim ones (1xx). */
function parseResponses(received: string, closed: boolean, methods: readonly string[]): WireResponse[] {
  const responses: WireResponse[] = [];
  let rest = received;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) {
      return responses;
    }
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const [, version = '', status = '0'] = /^HTTP\/(\d\.\d) (\d{3}) /.exec(statusLine) ?? [];
    const headers = new Map<string, string[]>();
    for (const line of lines) {
      const colon = line.indexOf(':');
      const name = line.slice(0, colon).toLowerCase();
      headers.set(name, [...(headers.get(name) ?? []), line.slice(colon + 1).trim()]);
    }
    const hasBody = !/^(?:1..|204|304)$/.test(status) && methods[responses.length] !== 'HEAD';
    const after = rest.slice(end + 4);
    const body = hasBody ? bodyOf(headers, after, closed) : { text: '', size: 0 };
    if (body === undefined) {
      return responses;
    }
    responses.push({ version, status: Number(status), headers, body: body.text });
    rest = after.slice(body.size);
  }
}

type Body = Readonly<{ text: string; size: number }>;

/** @returns the body at the start of these bytes, and how many it takes; undefined when it is incomplete */
function bodyOf(headers: ReadonlyMap<string, readonly string[]>, bytes: string, closed: boolean): Body | undefined {
  if (headers.get('transfer-encoding')?.[0] === 'chunked') {
    return chunkedBodyOf(bytes);
  }
  const length = headers.get('content-length')?.[0];
  const size = length === undefined ? bytes.length : Number(length);
  const isComplete = length === undefined ? closed : bytes.length >= size;
  return isComplete ? { text: bytes.slice(0, size), size } : undefined;
}

function chunkedBodyOf(bytes: string): Body | undefined {
  let [at, text] = [0, ''];
  for (;;) {
    const start = bytes.indexOf('\r\n', at) + 2;
    const length = Number.parseInt(bytes.slice(at, start), 16);
    at = start + length + 2;
    // A length that is no number is never complete.
    if (start === 1 || !(at <= bytes.length)) {
      return undefined;
    }
    text += bytes.slice(start, start + length);
    if (length === 0) {
      return { text, size: at };
    }
  }
}
