import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../environment/free-port.mjs';

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 10_000;
const OUTPUT_KEPT = 16_000;

/** A contestant's server as a process of its own. */
export class ServerProcess {
  static #running = new Set();
  static #over = false;
  #output = '';

  /** Stops every server and starts no more, for an interrupted benchmark. */
  static async stopAll() {
    ServerProcess.#over = true;
    await Promise.all(Array.from(ServerProcess.#running, (server) => server.stop()));
  }

  /**
   * Starts a server and waits until it responds to a request that uses keys, limits and the database.
   * @param {{program: string[], environment: Record<string, string>, probe: {key: string, status: number}}} options
   */
  static async start({ executable = process.execPath, program, environment, probe }) {
    const server = new ServerProcess();
    server.port = await freePort();
    if (ServerProcess.#over) {
      throw new Error('The benchmark is over.');
    }
    server.startedAt = performance.now();
    server.child = spawn(executable, program, {
      env: { PATH: process.env.PATH, NODE_ENV: 'production', PORT: String(server.port), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    ServerProcess.#running.add(server);
    server.child.once('exit', () => ServerProcess.#running.delete(server));
    for (const stream of [server.child.stdout, server.child.stderr]) {
      stream.on('data', (chunk) => (server.#output = (server.#output + chunk).slice(-OUTPUT_KEPT)));
    }
    await server.#untilItResponds(probe);
    /** Milliseconds from the start of the process to its first response. */
    server.startMs = performance.now() - server.startedAt;
    return server;
  }

  get pid() {
    return this.child.pid;
  }

  get running() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** The end of its output. */
  get output() {
    return this.#output;
  }

  async stop() {
    if (!this.running) {
      return;
    }
    const exited = once(this.child, 'exit');
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  }

  async #untilItResponds({ key, status }) {
    const deadline = Date.now() + START_TIMEOUT_MS;
    let last = 'none';
    while (this.running && Date.now() < deadline) {
      last = await cancelMissingOrder(this.port, key).catch((error) => error.code);
      if (last === status) {
        return;
      }
      await delay(2);
    }
    await this.stop();
    throw new Error(`A server did not start (last response: ${last}). Its output:\n${this.#output}`);
  }
}

/** Cancels an order that does not exist; resolves with the status. */
export function cancelMissingOrder(port, key) {
  return new Promise((resolve, reject) => {
    request(
      {
        host: '127.0.0.1',
        port,
        method: 'DELETE',
        path: '/v1/store/orders/0',
        headers: { authorization: `Bearer ${key}` },
        agent: false,
      },
      (res) => {
        res.resume();
        res.once('end', () => resolve(res.statusCode));
      },
    )
      .once('error', reject)
      .end();
  });
}

/** Sends the only request that the limited key may make, so that every further one gets 429. */
export async function exhaustLimitedKey(port, keys) {
  await cancelMissingOrder(port, keys.limited);
}
