import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runCommand } from '../../src/cli/run-command.js';
import { CLI } from './build.js';

export interface CommandResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The result of a command that fails with this message. */
export const failure = (message: string): CommandResult => ({ exitCode: 1, stdout: '', stderr: `error: ${message}\n` });

let previous: Promise<unknown> = Promise.resolve();

/**
 * Runs `petstore` in this process, which is many times faster than starting one, with no environment variables except the
 * given ones and with an empty stdin. Commands run one after another, because they share the streams and the environment.
 */
export function petstore(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CommandResult> {
  const result = previous.then(() => runHere(args, environment));
  previous = result.catch(() => undefined);
  return result;
}

async function runHere(args: readonly string[], environment: Readonly<Record<string, string>>): Promise<CommandResult> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const output = Promise.all([text(stdout), text(stderr)]);
  const replaced = { stdout, stderr, stdin: Readable.from([]), env: { ...environment } };
  const original = Object.keys(replaced).map((name) => [name, Object.getOwnPropertyDescriptor(process, name)] as const);
  for (const [name, value] of Object.entries(replaced)) {
    Object.defineProperty(process, name, { configurable: true, enumerable: true, value });
  }
  const exitCode = await runCommand(args).finally(() => {
    Object.defineProperties(process, Object.fromEntries(original) as PropertyDescriptorMap);
    stdout.end();
    stderr.end();
  });
  const [out, err] = await output;
  return { exitCode, stdout: out, stderr: err };
}

/**
 * Runs `petstore` in its own process, with no environment variables except the given ones and PATH.
 * @param input what it reads on stdin
 */
export function petstoreProcess(
  args: readonly string[],
  environment?: Readonly<Record<string, string>>,
  input?: string,
): Promise<CommandResult> {
  return runProcess([process.execPath, CLI, ...args], environment, input);
}

/** Runs any program like that. */
export async function runProcess(
  [program = '', ...args]: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = '',
): Promise<CommandResult> {
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, ...environment },
    // A command that runs although it should have been rejected must not outlive its test.
    timeout: 60_000,
  });
  // A command may end without having read it.
  child.stdin.on('error', () => undefined).end(input);
  const closed = once(child, 'close') as Promise<[number | null]>;
  const [stdout, stderr, [exitCode]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  return { exitCode, stdout, stderr };
}
