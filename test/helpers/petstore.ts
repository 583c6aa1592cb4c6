import { spawn } from 'node:child_process';
import { join } from 'node:path';

export const CLI = join(__dirname, '..', '..', 'dist', 'cli.js');

export interface CommandResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs `petstore` in its own process, with no environment variables except the given ones and PATH.
 * @param input what it reads on stdin
 */
export function petstore(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = '',
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [CLI, ...args], {
      env: { PATH: process.env.PATH, ...environment },
      stdio: ['pipe', 'pipe', 'pipe'],
      // A command that runs although it should have been rejected must not outlive its test.
      timeout: 15_000,
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    // A command may end without having read it.
    child.stdin.on('error', () => undefined).end(input);
    child.on('error', reject);
    child.on('close', (exitCode) => {
      resolve({ exitCode, stdout, stderr });
    });
  });
}
