import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { cpuSecondsOf } from '../proc.mjs';

const WORKER = fileURLToPath(new URL('worker.mjs', import.meta.url));

/** A client in a process of its own, so that it takes no CPU time from the process that measures and reports. */
export class Client {
  #child = fork(WORKER);
  #ended = once(this.#child, 'exit').then(() => [{ error: 'The client has ended.' }]);

  /**
   * Executes one run, see worker.mjs.
   * @param {{pid: number, port: number}} server
   * @param {number[]} expected the statuses that may occur
   * @returns the results, with the CPU time that the server spent on each response
   * @throws {Error} on any other status, a lost connection, or without any response
   */
  async run(server, spec, expected) {
    const cpuBefore = cpuSecondsOf(server.pid);
    this.#child.send({ port: server.port, ...spec });
    const [{ result, error }] = await Promise.race([once(this.#child, 'message'), this.#ended]);
    if (error !== undefined) {
      throw new Error(error);
    }
    if (result.responses === 0 || result.statuses.some((status) => !expected.includes(status))) {
      throw new Error(`${result.responses} responses with ${result.statuses}; expected ${expected}`);
    }
    return { ...result, cpuMicros: ((cpuSecondsOf(server.pid) - cpuBefore) / result.responses) * 1e6 };
  }

  stop() {
    this.#child.kill();
  }
}
