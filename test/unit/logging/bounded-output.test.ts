import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { Writable } from 'node:stream';
import { BoundedOutput } from '../../../src/logging/bounded-output.js';

const LINE = `${'x'.repeat(1_023)}\n`;

it('keeps a bounded number of lines for a reader that does not read, and then tells how many were dropped', async () => {
  let written = '';
  let takeMore: (() => void) | undefined;
  const output = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      written += chunk.toString();
      takeMore = callback;
    },
  });
  const log = new BoundedOutput(output);
  for (let turn = 0; turn < 30; turn++) {
    for (let line = 0; line < 100; line++) {
      log.write(LINE);
    }
    await endOfTurn();
  }
  expect(output.writableLength).toBeLessThanOrEqual(1_048_576);
  while (output.writableLength > 0) {
    takeMore?.();
    await endOfTurn();
  }
  log.write('next\n');
  log.flush();
  takeMore?.();
  await endOfTurn();
  log.write('last\n');
  log.flush();
  await endOfTurn();
  const lines = written.trimEnd().split('\n');
  expect([lines.at(-3), lines.at(-1)]).toEqual(['next', 'last']);
  expect(JSON.parse(lines.at(-2) ?? '')).toMatchObject({
    msg: 'dropped log lines',
    dropped: 3_000 - (lines.length - 3),
  });
});

it('loses lines, and nothing else, when the output fails', async () => {
  const output = new Writable({ write: (_chunk, _encoding, callback) => callback(new Error('EPIPE')) });
  const log = new BoundedOutput(output);
  log.write(LINE);
  await endOfTurn();
  log.write(LINE);
  await endOfTurn();
  expect(output.destroyed).toBe(true);
});

it('writes a line at once, and those that follow it closely together', () => {
  jest.useFakeTimers();
  const writes: string[] = [];
  const output = new Writable({
    decodeStrings: false,
    write: (chunk: string, _encoding, callback) => {
      writes.push(chunk);
      callback();
    },
  });
  const log = new BoundedOutput(output);
  log.write('1\n');
  log.write('2\n');
  log.write('3\n');
  expect(writes).toEqual(['1\n']);
  jest.advanceTimersByTime(100);
  expect(writes).toEqual(['1\n', '2\n3\n']);
  jest.advanceTimersByTime(200);
  log.write('4\n');
  expect(writes.at(-1)).toBe('4\n');
  for (let line = 0; line < 16; line++) {
    log.write(LINE);
  }
  expect(writes.at(-1)).toBe(LINE.repeat(16));
  jest.useRealTimers();
});

it.each(['throw new Error("crash")', 'process.exit(1)', 'Promise.reject(new Error("crash"))', '0'])(
  'writes the last lines when the process ends by %s',
  (end) => {
    const module = resolve('dist/logging/json-logger.js');
    const program = `const logger = new (await import(${JSON.stringify(module)})).JsonLogger('info');
      for (const line of ['one', 'two', 'three']) logger.log(line);
      ${end};`;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' });
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { msg: string }).msg),
    ).toEqual(['one', 'two', 'three']);
  },
);
