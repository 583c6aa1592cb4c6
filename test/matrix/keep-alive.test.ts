import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import {
  describeWithProxy,
  PROXY_HOST,
  ProxyProcess,
  SHIPPED_PROXIES,
  shippedConfig,
} from '../helpers/shipped-proxies.js';
import { startTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** What each file says about idle connections to the service, and how many such periods an idle connection may last. */
const IDLE_SETTINGS: Readonly<Record<string, { setting: RegExp; periods: number }>> = {
  nginx: { setting: /(?<=^ {2}keepalive_timeout )(\d+)s/m, periods: 1 },
  // The number of connections that HAProxy keeps is halved in each period. 15 were measured after 64 connections.
  HAProxy: { setting: /(?<=pool-purge-delay )(\d+)s/, periods: 20 },
  'HAProxy of Compose': { setting: /(?<=pool-purge-delay )(\d+)s/, periods: 20 },
  Caddy: { setting: /(?<=keepalive )(\d+)s/, periods: 1 },
};
/** Times are this much shorter in the tests that wait for them. */
const SCALE = 50;
const CONNECTIONS = 20;

/** In place of the service: a server that decides about its connections. It responds to every request with 204. */
class Upstream {
  /** Connections whose last request is not one of the health check, which Caddy sends on the same connections. */
  readonly connections = new Set<Socket>();
  /** Method and path of each request that arrived on a connection that had been used before. */
  readonly reuses: string[] = [];
  readonly requests: string[] = [];
  /** Whether a connection closes when it gets its second request. */
  closesUsed = false;
  /** Responses wait until this many connections have a request. */
  gathers = 0;
  #pending: Socket[] = [];

  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => {
      this.#serve(socket);
    });
  }

  static async start(): Promise<Upstream> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new Upstream(server);
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.connections.forEach((socket) => socket.destroy());
    await new Promise((resolve) => this.server.close(resolve));
  }

  #serve(socket: Socket): void {
    let count = 0;
    socket.on('error', () => undefined);
    socket.once('close', () => this.connections.delete(socket));
    socket.on('data', (chunk) => {
      const [method = '', path = ''] = chunk.toString().split(' ');
      if (path.startsWith('/health/')) {
        this.connections.delete(socket);
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        return;
      }
      this.connections.add(socket);
      this.requests.push(`${method} ${path}`);
      count++;
      if (count > 1) {
        this.reuses.push(`${method} ${path}`);
        if (this.closesUsed) {
          socket.destroy();
          return;
        }
      }
      this.#pending.push(socket);
      if (this.#pending.length >= this.gathers) {
        this.#pending.splice(0).forEach((waiting) => waiting.write('HTTP/1.1 204 No Content\r\n\r\n'));
      }
    });
  }
}

describe.each(SHIPPED_PROXIES.map((proxy) => [proxy.file, proxy] as const))('%s', (_file, proxy) => {
  const { setting, periods } = IDLE_SETTINGS[proxy.name]!;

  it('lets the proxy close idle connections before the service does', async () => {
    const service = await startTestService();
    const response = await fetch(`${service.baseUrl}/health/live`, { headers: { connection: 'keep-alive' } });
    const [, serviceSeconds] = /timeout=(\d+)/.exec(response.headers.get('keep-alive') ?? '') ?? [];
    await service.stop();
    const [, seconds] = setting.exec(shippedConfig(proxy)) ?? [];
    expect(Number(seconds) * periods).toBeLessThan(Number(serviceSeconds));
  });

  describeWithProxy(proxy)(`with ${proxy.name}`, () => {
    let upstream: Upstream;
    let process: ProxyProcess;
    let agents: (http.Agent | https.Agent)[];
    beforeEach(async () => {
      upstream = await Upstream.start();
      const config = shippedConfig(proxy).replace(
        setting,
        (_text, seconds) => `${(Number(seconds) * 1_000) / SCALE}ms`,
      );
      process = await ProxyProcess.start(proxy, [upstream.port, upstream.port, upstream.port], config);
      agents = Array.from(
        { length: CONNECTIONS },
        () => new (proxy.tls ? https : http).Agent({ keepAlive: true, maxSockets: 1 }),
      );
      await waitFor(
        async () => (await send('GET', '/first')) === 204,
        () => `${proxy.name} responds: ${process.log}`,
      );
    });
    afterEach(async () => {
      agents.forEach((agent) => {
        agent.destroy();
      });
      await process.stop();
      await upstream.stop();
    });

    /** Resolves with the status, or 0 when there is no response. Each agent has one connection to the proxy. */
    function send(method: string, path: string, agent = agents[0]!): Promise<number> {
      const options = { host: '127.0.0.1', port: process.port, agent, method, path, rejectUnauthorized: false };
      return new Promise((resolve) => {
        (proxy.tls ? https : http)
          .request({ ...options, headers: { host: PROXY_HOST } }, (res) => {
            res.resume().once('close', () => {
              resolve(res.statusCode ?? 0);
            });
          })
          .once('error', () => {
            resolve(0);
          })
          .end();
      });
    }

    it('closes idle connections without help', async () => {
      upstream.gathers = CONNECTIONS;
      const statuses = await Promise.all(agents.map((agent) => send('GET', '/v1/store/orders', agent)));
      expect(new Set(statuses)).toEqual(new Set([204]));
      await waitFor(() => upstream.connections.size === 0, 'the proxy has closed its connections');
    });

    it('sends a GET again whose connection closes', async () => {
      upstream.closesUsed = true;
      await waitFor(async () => {
        expect(await send('GET', '/v1/store/orders')).toBe(204);
        return upstream.reuses.length > 0;
      }, 'the proxy has used a connection again');
    });

    it(`sends a cancel ${proxy.name === 'nginx' ? 'again' : 'once'} whose connection closes`, async () => {
      upstream.closesUsed = true;
      let id = 0;
      await waitFor(async () => {
        // On the connection of the proxy that a cancel may use again.
        await send('GET', '/v1/store/orders');
        await send('DELETE', `/v1/store/orders/${++id}`);
        return upstream.reuses.some((request) => request.startsWith('DELETE'));
      }, 'the proxy has used a connection again');
      const sent = upstream.requests.filter((request) => request === `DELETE /v1/store/orders/${id}`);
      expect(sent).toHaveLength(proxy.name === 'nginx' ? 2 : 1);
    });
  });
});
