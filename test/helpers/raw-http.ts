import { type Agent, type IncomingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { expectDocumented } from './contract.js';

export interface RawRequest {
  readonly method?: string;
  /** Below the version segment, sent as it is. */
  readonly path?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
  /** To send several requests over one connection; by default each has its own. */
  readonly agent?: Agent;
}

export interface RawResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The bytes of the body as they were sent: still compressed, if they were. */
  readonly body: Buffer;
}

/**
 * A request whose answer is shown as it came; `fetch` adds headers of its own and decompresses. The answer is checked
 * against the document.
 */
export async function requestRaw(baseUrl: string, options: RawRequest = {}): Promise<RawResponse> {
  const { method = 'GET', path = '/store/orders' } = options;
  const response = await send(baseUrl, options);
  const text = (response.headers['content-encoding'] === 'gzip' ? gunzipSync(response.body) : response.body).toString();
  const header = (name: string): string | undefined => response.headers[name.toLowerCase()] as string | undefined;
  expectDocumented(
    { status: response.status, header, body: method === 'HEAD' ? undefined : text },
    { method, path: `/v1${path}` },
  );
  return response;
}

function send(baseUrl: string, options: RawRequest): Promise<RawResponse> {
  const { method = 'GET', path = '/store/orders', key, headers = {}, body, agent } = options;
  const { hostname, port } = new URL(baseUrl);
  return new Promise((resolve, reject) => {
    const req = request({ hostname, port, method, path: `/v1${path}`, agent: agent ?? false }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('error', reject);
      res.on('end', () => {
        resolve({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(chunks) });
      });
    });
    req.on('error', reject);
    if (key !== undefined) {
      req.setHeader('Authorization', `Bearer ${key}`);
    }
    for (const [name, value] of Object.entries(headers)) {
      req.setHeader(name, value);
    }
    if (body !== undefined) {
      // Without it Node sends the body of a GET or DELETE as bytes that belong to no request.
      req.setHeader('Content-Length', Buffer.byteLength(body));
    }
    req.end(body);
  });
}

/** What ends the body of every complete HTTP/1.1 answer that is sent in chunks (RFC 9112 section 7.1). */
const LAST_CHUNK = '0\r\n\r\n';

/** A client that asks for the list, reads the beginning and then takes nothing more until it is told to. */
export class StalledClient {
  readonly #received: Buffer[] = [];
  /** The last bytes of what was received, however it was cut. */
  #end = '';

  private constructor(private readonly socket: Socket) {}

  static async open(port: number, key: string, headers: Readonly<Record<string, string>> = {}): Promise<StalledClient> {
    const socket = connect(port, '127.0.0.1');
    const reader = new StalledClient(socket);
    const lines = Object.entries({ Host: 'localhost', Authorization: `Bearer ${key}`, ...headers });
    socket.on('error', () => undefined);
    await new Promise<void>((resolve) => {
      socket.once('data', (chunk) => {
        socket.pause();
        reader.#take(chunk);
        resolve();
      });
      const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
      socket.write(`GET /v1/store/orders HTTP/1.1\r\n${head}\r\n`);
    });
    return reader;
  }

  get text(): string {
    return Buffer.concat(this.#received).toString('latin1');
  }

  /** Whether the answer has arrived up to its proper end. */
  get isComplete(): boolean {
    return this.#end === LAST_CHUNK;
  }

  /** Reads on until the server has closed the connection or the answer is complete. */
  async readToEnd(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.socket.on('data', (chunk) => {
        this.#take(chunk);
        if (this.isComplete) {
          resolve();
        }
      });
      this.socket.once('close', () => {
        resolve();
      });
      this.socket.resume();
    });
  }

  /** Goes away without a word. */
  disconnect(): void {
    this.socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#end = (this.#end + chunk.subarray(-LAST_CHUNK.length).toString('latin1')).slice(-LAST_CHUNK.length);
  }
}
