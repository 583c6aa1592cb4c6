import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { waitFor } from '../helpers/wait-for.js';

const MODULE = JSON.stringify(resolve('dist/logging/create-logger.js'));

/** Runs statements in a process of their own, which has a `log`. Its stdout is what is tested. */
function run(statements: string): ChildProcess {
  const program = `const log = await (await import(${MODULE})).createLogger('info'); ${statements}`;
  return spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'pipe', timeout: 60_000 });
}

/** Resolves with the exit code, whether the output has been read or not. */
const exitOf = async (child: ChildProcess): Promise<unknown> => ((await once(child, 'exit')) as unknown[])[0];

const LINES = 3_000;
const LOG_LINES = `for (let line = 0; line < ${LINES}; line++) log.info('${'x'.repeat(1_000)}');`;
const UNTIL_STDIN_ENDS = `await new Promise((end) => process.stdin.resume().once('end', end));`;

describe('the output of the log', () => {
  it('keeps a bounded number of lines for a reader that does not read, and then tells how many were dropped', async () => {
    const child = run(`${LOG_LINES} console.error('logged'); ${UNTIL_STDIN_ENDS} log.info('last');`);
    await once(child.stderr!, 'data');
    let output = '';
    child.stdout!.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
    await waitFor(() => output.includes('dropped'), 'the reader learns of dropped lines');
    child.stdin!.end();
    expect(await exitOf(child)).toBe(0);
    await waitFor(() => child.stdout!.readableEnded, 'the output is complete');
    const lines = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { msg: string; dropped?: number });
    const written = lines.filter(({ msg }) => msg.startsWith('x')).length;
    // Once.
    expect(lines.filter(({ dropped }) => dropped !== undefined)).toEqual([
      expect.objectContaining({ level: 40, dropped: LINES - written, msg: 'dropped log lines' }),
    ]);
    expect(output.length).toBeLessThan(2 * 1_048_576);
    expect(lines.at(-1)?.msg).toBe('last');
  });

  it('does not prevent the end of a process whose output nobody reads', async () => {
    const child = run(LOG_LINES);
    expect(await exitOf(child)).toBe(0);
    child.stdout!.destroy();
  });

  it('loses lines, and nothing else, when the pipe is closed', async () => {
    // The second lines are written after the error of the first ones.
    const statements = `${LOG_LINES} setImmediate(() => { ${LOG_LINES} setImmediate(() => console.error('alive')); });`;
    const child = run(`${UNTIL_STDIN_ENDS} ${statements}`);
    child.stdout!.destroy();
    child.stdin!.end();
    const [exitCode, stderr] = await Promise.all([exitOf(child), text(child.stderr!)]);
    expect([exitCode, stderr]).toEqual([0, 'alive\n']);
  });

  it('writes a line soon, also when no other follows', async () => {
    const child = run(`log.info('alone'); ${UNTIL_STDIN_ENDS}`);
    const [line] = (await once(child.stdout!, 'data')) as [Buffer];
    expect(JSON.parse(line.toString())).toMatchObject({ msg: 'alone' });
    child.stdin!.end();
    expect(await exitOf(child)).toBe(0);
  });

  it.each(['throw new Error("crash")', 'process.exit(1)'])(
    'has the last lines when the process ends by %s',
    async (end) => {
      const child = run(`for (const line of ['one', 'two', 'three']) log.info(line); ${end};`);
      const lines = (await text(child.stdout!)).trim().split('\n');
      expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(['one', 'two', 'three']);
    },
  );
});
