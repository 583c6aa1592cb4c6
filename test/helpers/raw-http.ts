import { type Agent, type IncomingHttpHeaders, request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { expectDocumented } from './contract.js';
import { RawClient } from './raw-client.js';
import { waitFor } from './wait-for.js';
import { requestText } from './wire.js';

export interface RawRequest {
  readonly method?: string;
  /** Path below the version segment, sent unchanged. */
  readonly path?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
  /** Reuses connections; by default every request opens a new one. */
  readonly agent?: Agent;
}

export interface RawResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Bytes of the body as sent, compressed or not. */
  readonly body: Buffer;
}

/**
 * Sends a request and returns the unmodified response, while `fetch` adds request headers and decompresses. The response is
 * checked against `openapi.json`.
 */
export async function requestRaw(baseUrl: string, options: RawRequest = {}): Promise<RawResponse> {
  const { method = 'GET', path = '/store/orders' } = options;
  const response = await send(baseUrl, options);
  const isCompressed = response.headers['content-encoding'] === 'gzip' && method !== 'HEAD';
  const text = (isCompressed ? gunzipSync(response.body) : response.body).toString();
  const header = (name: string): string | undefined => response.headers[name.toLowerCase()] as string | undefined;
  expectDocumented(
    { status: response.status, header, body: method === 'HEAD' ? undefined : text },
    { method, path: `/v1${path}` },
  );
  return response;
}

/** Reads the list, and expects the encoding that the request asks for. */
export async function readList(
  baseUrl: string,
  key: string,
  encoding: 'gzip' | 'identity' = 'gzip',
): Promise<{ etag: string | undefined; text: string }> {
  const { status, headers, body } = await requestRaw(baseUrl, { key, headers: { 'Accept-Encoding': encoding } });
  expect([status, headers['content-encoding']]).toEqual([200, encoding === 'gzip' ? 'gzip' : undefined]);
  return { etag: headers.etag, text: (encoding === 'gzip' ? gunzipSync(body) : body).toString() };
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
      // Otherwise Node sends the body of a GET or DELETE without framing.
      req.setHeader('Content-Length', Buffer.byteLength(body));
    }
    req.end(body);
  });
}

/** End of a complete chunked body (RFC 9112 section 7.1). */
const LAST_CHUNK = '0\r\n\r\n';

/** A client that requests the list, reads the first bytes and then stops reading. */
export class StalledClient {
  /** Bytes of a response whose length is known, with its head. */
  readonly #length: number | undefined;

  private constructor(private readonly client: RawClient) {
    const head = this.text.slice(0, this.text.indexOf('\r\n\r\n') + 4);
    const [, bodyLength] = /^content-length: (\d+)/im.exec(head) ?? [];
    this.#length = bodyLength === undefined ? undefined : head.length + Number(bodyLength);
  }

  static async open(port: number, key: string, headers: Readonly<Record<string, string>> = {}): Promise<StalledClient> {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const client = await RawClient.open(port, requestText('GET', '/v1/store/orders', { key, headers: lines }));
    await client.stall();
    return new StalledClient(client);
  }

  get text(): string {
    return this.client.received.toString('latin1');
  }

  /** Whether the response says its length. */
  get hasLength(): boolean {
    return this.#length !== undefined;
  }

  /** Whether the complete response has arrived. */
  get isComplete(): boolean {
    return this.#length === undefined ? this.client.endsWith(LAST_CHUNK) : this.client.bytes >= this.#length;
  }

  /** Resumes reading until the response is complete or the server closes the connection. */
  async readToEnd(): Promise<void> {
    this.client.socket.resume();
    await waitFor(() => this.isComplete || this.client.closed, 'the response ends', { withinMs: 60_000 });
  }

  /** Closes the connection without reading the rest. */
  disconnect(): void {
    this.client.socket.destroy();
  }
}
