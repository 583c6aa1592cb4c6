import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../environment/free-port.mjs';

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 10_000;
const OUTPUT_KEPT = 4_000;

/** A contestant's server as a process of its own. */
export class ServerProcess {
  static #running = new Set();
  static #over = false;
  #output = '';

  /** Stops every server that was started and starts no more, for a benchmark that ends before its time. */
  static async stopAll() {
    ServerProcess.#over = true;
    await Promise.all(Array.from(ServerProcess.#running, (server) => server.stop()));
  }

  /**
   * Starts a server and waits until it answers a request that needs its key look-up, its limits and its database.
   * @param {{program: string[], environment: Record<string, string>, probe: {key: string, status: number}}} options
   */
  static async start({ program, environment, probe }) {
    const server = new ServerProcess();
    server.port = await freePort();
    if (ServerProcess.#over) {
      throw new Error('The benchmark is over.');
    }
    server.startedAt = performance.now();
    server.child = spawn(process.execPath, program, {
      env: { PATH: process.env.PATH, NODE_ENV: 'production', PORT: String(server.port), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    ServerProcess.#running.add(server);
    server.child.once('exit', () => ServerProcess.#running.delete(server));
    for (const stream of [server.child.stdout, server.child.stderr]) {
      stream.on('data', (chunk) => (server.#output = (server.#output + chunk).slice(-OUTPUT_KEPT)));
    }
    await server.#untilItAnswers(probe);
    /** Milliseconds from the start of the process to its first answer. */
    server.startMs = performance.now() - server.startedAt;
    return server;
  }

  get pid() {
    return this.child.pid;
  }

  get running() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** The end of what it has written. */
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

  async #untilItAnswers({ key, status }) {
    const deadline = Date.now() + START_TIMEOUT_MS;
    let last = 'nothing';
    while (this.running && Date.now() < deadline) {
      last = await cancelNothing(this.port, key).catch((error) => error.code);
      if (last === status) {
        return;
      }
      await delay(2);
    }
    await this.stop();
    throw new Error(`A server did not start (last answer: ${last}). It said:\n${this.#output}`);
  }
}

/** Cancels an order that does not exist; resolves with the status of the answer. */
export function cancelNothing(port, key) {
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

/** Makes the one request that the spent key has, so that every further one is refused. */
export async function spend(port, keys) {
  await cancelNothing(port, keys.spent);
}
