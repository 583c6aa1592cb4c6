import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { waitFor } from './wait-for.js';

/** A program that runs beside the test. */
export class Program {
  readonly child: ChildProcess;
  /** On stdout and stderr. */
  output = '';
  /** The exit code, when the output is complete; null after a signal. */
  readonly exited: Promise<number | null>;
  hasExited = false;

  constructor([program = '', ...args]: readonly string[], options: SpawnOptions = {}) {
    this.child = spawn(program, args, options);
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
    this.exited = new Promise((resolve) => this.child.once('close', resolve));
    void this.exited.then(() => (this.hasExited = true));
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Waits for this output. @returns its first group */
  async untilOutput(pattern: RegExp): Promise<string> {
    const matches = (): boolean => {
      if (this.hasExited && !pattern.test(this.output)) {
        throw new Error(`${this.child.spawnfile} exited with ${this.child.exitCode}: ${this.output}`);
      }
      return pattern.test(this.output);
    };
    await waitFor(matches, () => `${pattern} is in the output: ${this.output}`, { withinMs: 120_000 });
    return pattern.exec(this.output)?.[1] ?? '';
  }

  /** Sends a signal. @returns the exit code */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.child.kill(signal);
    return this.exited;
  }
}
