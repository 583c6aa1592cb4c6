import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../environment/free-port.mjs';

const START_TIMEOUT_MS = 30_000;
const OUTPUT_KEPT = 16_000;
const ORDERS_PATH = '/v1/store/orders';

/** The process of a contestant. */
export class Server {
  static #running = new Set();

  static async stopAll() {
    await Promise.all(Array.from(Server.#running, (server) => server.stop()));
  }

  /** Starts a contestant and waits until it responds to a request that uses keys, limits and the database. */
  static async start({ command: [program, ...args] }, { redis, keys }, database) {
    const server = new Server();
    server.port = await freePort();
    const startedAt = performance.now();
    server.child = spawn(program, args, {
      env: {
        PATH: process.env.PATH,
        NODE_ENV: 'production',
        PORT: String(server.port),
        DATABASE_URL: database.url,
        REDIS_URL: redis.url,
        // Of this service. One proxy, so that a run can use many client addresses.
        ...{ METRICS_PORT: '0', LOG_LEVEL: 'warn', TRUST_PROXY: '1' },
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    Server.#running.add(server);
    server.exited = once(server.child, 'exit').then(() => Server.#running.delete(server));
    let output = '';
    for (const stream of [server.child.stdout, server.child.stderr]) {
      stream.on('data', (chunk) => (output = (output + chunk).slice(-OUTPUT_KEPT)));
    }
    const responds = () =>
      server.fetch(keys.unlimited, 'DELETE', '/0').then(
        ({ status }) => status === 404,
        () => false,
      );
    while (!(await responds())) {
      if (!Server.#running.has(server) || performance.now() - startedAt > START_TIMEOUT_MS) {
        await server.stop();
        throw new Error(`${args.at(-1) ?? program} did not start. Its output:\n${output}`);
      }
      await delay(2);
    }
    /** From the start of the process to its first response. */
    server.startMs = performance.now() - startedAt;
    return server;
  }

  /** Starts a server for each contestant on one database, runs `work` with them, and always stops them. */
  static async withAll(contestants, bench, database, work) {
    const servers = new Map();
    try {
      for (const contestant of contestants) {
        servers.set(contestant, await Server.start(contestant, bench, database));
      }
      return await work(servers);
    } finally {
      await Promise.all(Array.from(servers.values(), (server) => server.stop()));
    }
  }

  get pid() {
    return this.child.pid;
  }

  /** Requests the orders, or one of them. */
  fetch(key, method = 'GET', path = '') {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return fetch(`http://127.0.0.1:${this.port}${ORDERS_PATH}${path}`, { method, headers });
  }

  async stop() {
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 10_000);
    await this.exited;
    clearTimeout(timer);
  }
}
