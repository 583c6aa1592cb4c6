import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A client in its own process, so that it takes no CPU time from the process that measures and reports. */
export class Client {
  /** @param {'load' | 'list'} kind */
  constructor(kind) {
    this.child = fork(fileURLToPath(new URL(`${kind}-worker.mjs`, import.meta.url)));
  }

  /**
   * Executes one run.
   * @param {(event: 'begin' | 'end') => void} [onEvent]
   * @param {number} timeoutMs
   */
  run(spec, { onEvent = () => undefined, timeoutMs = 180_000 } = {}) {
    return new Promise((resolve, reject) => {
      const settle = (outcome) => {
        clearTimeout(timer);
        this.child.off('message', onMessage).off('exit', onExit);
        outcome();
      };
      const onMessage = ({ event, result, error }) => {
        if (event !== undefined) {
          try {
            onEvent(event);
          } catch (failure) {
            settle(() => reject(failure));
          }
        } else {
          settle(() => (error === undefined ? resolve(result) : reject(new Error(error))));
        }
      };
      const onExit = () => settle(() => reject(new Error('The client process ended.')));
      const timer = setTimeout(() => settle(() => reject(new Error('The run timed out.'))), timeoutMs);
      this.child.on('message', onMessage).on('exit', onExit);
      this.child.send(spec);
    });
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const exited = once(this.child, 'exit');
      this.child.kill();
      await exited;
    }
  }
}
