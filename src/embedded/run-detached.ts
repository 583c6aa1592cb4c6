import { spawn, type StdioOptions } from 'node:child_process';

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Written to stdin. */
  readonly input?: string;
  readonly stdio?: StdioOptions;
}

/**
 * Runs a program in its own session, where the terminal's Ctrl-C does not reach it. An exit of this process interrupts it.
 * @returns what it wrote to stdout and stderr
 * @throws {Error} with that output when it fails
 */
export async function runDetached(command: readonly string[], options: RunOptions = {}): Promise<string> {
  const [program = '', ...args] = command;
  const { input = '', ...spawnOptions } = options;
  const child = spawn(program, args, { cwd: '/', stdio: 'pipe', ...spawnOptions, detached: true });
  const interrupt = (): void => void child.kill('SIGINT');
  process.once('exit', interrupt);
  let output = '';
  const collect = (chunk: Buffer): void => void (output += chunk.toString());
  child.stdout?.on('data', collect);
  child.stderr?.on('data', collect);
  // A program that fails early closes its stdin.
  child.stdin?.on('error', () => undefined).end(input);
  try {
    const code = await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject));
    if (code !== 0) {
      throw new Error(output.trim());
    }
    return output;
  } finally {
    process.off('exit', interrupt);
  }
}
