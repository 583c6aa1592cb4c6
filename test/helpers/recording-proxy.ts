import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** A request through the proxy and the service's response to it. */
export interface Recorded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly status: number;
  readonly responseHeaders: IncomingHttpHeaders;
  /** Milliseconds of `performance.now()`. */
  readonly receivedAt: number;
  readonly respondedAt: number;
}

/** What happens to one request instead of being forwarded as it is. */
export type Disturbance =
  /** The request is sent with this key, whose quota is spent; the wait in the response becomes one second. */
  | { readonly kind: 'limit'; readonly spentKey: string }
  /** The request is executed, and the connection is closed without a response. */
  | { readonly kind: 'lose' }
  /** Half of the body, then the connection breaks. */
  | { readonly kind: 'break' }
  /** Half of the body, which HTTP says is complete. */
  | { readonly kind: 'truncate' };

/** An HTTP proxy that records what clients send and get, and can disturb single requests. CORS preflights only pass. */
export class RecordingProxy {
  readonly #recorded: Recorded[] = [];
  #disturbance: (Disturbance & { readonly method: string }) | undefined;

  private constructor(
    private readonly server: Server,
    private readonly target: string,
  ) {}

  static async start(target: string): Promise<RecordingProxy> {
    const server = createServer();
    const proxy = new RecordingProxy(server, target);
    server.on('request', (req, res) => {
      void proxy.#forward(req, res);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Disturbs the next request with this method. */
  disturbNext(method: string, disturbance: Disturbance): void {
    this.#disturbance = { method, ...disturbance };
  }

  /** Forgets the requests and a disturbance that no request has met. */
  reset(): void {
    this.#recorded.length = 0;
    this.#disturbance = undefined;
  }

  /** The requests since the last call. */
  take(): Recorded[] {
    return this.#recorded.splice(0);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #forward(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const receivedAt = performance.now();
    const { method = '', url: path = '', headers } = req;
    const disturbance = this.#disturbance?.method === method ? this.#disturbance : undefined;
    if (disturbance !== undefined) {
      this.#disturbance = undefined;
    }
    const sent =
      disturbance?.kind === 'limit' ? { ...headers, authorization: `Bearer ${disturbance.spentKey}` } : headers;
    const upstream = request(new URL(path, this.target), { method, headers: sent }).end();
    const [response] = (await once(upstream, 'response')) as [IncomingMessage];
    const body = await buffer(response);
    const { statusCode: status = 0, headers: responseHeaders } = response;
    if (method !== 'OPTIONS') {
      const respondedAt = performance.now();
      this.#recorded.push({ method, path, headers, status, responseHeaders, receivedAt, respondedAt });
    }
    switch (disturbance?.kind) {
      case 'lose':
        req.socket.destroy();
        break;
      case 'break':
        res.writeHead(status, responseHeaders).write(body.subarray(0, body.length / 2), () => req.socket.destroy());
        break;
      case 'truncate':
        delete responseHeaders['content-length'];
        res.writeHead(status, responseHeaders).end(body.subarray(0, body.length / 2));
        break;
      case 'limit':
        res.writeHead(status, { ...responseHeaders, 'retry-after': '1' }).end(body);
        break;
      case undefined:
        res.writeHead(status, responseHeaders).end(body);
    }
  }
}
