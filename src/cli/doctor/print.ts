import { paint, type Style, TABLE_WIDTH } from '../text-table.js';
import type { Result } from './check.js';
import type { Check } from './run-checks.js';

const NAME_COLUMN = 9;
const TEXT_COLUMN = NAME_COLUMN + 21;

const STYLES: Readonly<Record<Result['status'], Style>> = {
  error: 'red',
  warning: 'yellow',
  ok: 'green',
  skipped: 'dim',
};

/** Formats checks for a terminal of 80 columns: one line for each, what to do below it, and the number of each status. */
export function textOf(checks: readonly Check[]): string {
  const lines = checks.map(({ name, status, message, remedy }) => {
    const head = `${paint(STYLES[status], status.padEnd(NAME_COLUMN))}${name.padEnd(TEXT_COLUMN - NAME_COLUMN)}`;
    const text = `${head}${wrapped(message, TEXT_COLUMN, '').trimStart()}`;
    return remedy === null ? text : `${text}\n${wrapped(remedy, NAME_COLUMN, '→ ')}`;
  });
  const counts = Object.entries(STYLES).flatMap(([status, style]) => {
    const count = checks.filter((check) => check.status === status).length;
    return count === 0 ? [] : [paint(style, `${count} ${status}`)];
  });
  return [...lines, '', counts.join(', ')].join('\n');
}

/** Breaks a text between words. A word that is longer than a line stays whole, so that it can be copied. */
function wrapped(text: string, column: number, mark: string): string {
  const lines: string[] = [];
  let line = mark;
  for (const word of text.split(' ')) {
    if (line.trim() !== mark.trim() && column + line.length + word.length > TABLE_WIDTH) {
      lines.push(line.trimEnd());
      line = ' '.repeat(mark.length);
    }
    line += `${word} `;
  }
  return [...lines, line.trimEnd()].map((each) => `${' '.repeat(column)}${each}`).join('\n');
}
