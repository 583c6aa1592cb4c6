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
  await endOfTurn();
  const lines = written.trimEnd().split('\n');
  expect(lines.at(-2)).toBe('next');
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({
    msg: 'dropped log lines',
    dropped: 3_000 - (lines.length - 2),
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
