import { paint, type Style, TABLE_WIDTH } from '../text-table.js';
import type { CheckResult, Diagnosis } from './diagnose.js';
import type { Status } from './finding.js';

const NAME_COLUMN = 9;
const TEXT_COLUMN = NAME_COLUMN + 21;

const STYLES: Readonly<Record<Status, Style>> = { ok: 'green', warning: 'yellow', error: 'red', skipped: 'dim' };

/** Formats a diagnosis for a terminal of 80 columns: one line for each check, and what to do below it. */
export function reportOf({ checks }: Diagnosis): string {
  const counts = (['error', 'warning', 'ok', 'skipped'] as const).flatMap((status) => {
    const count = checks.filter((check) => check.status === status).length;
    return count === 0 ? [] : [paint(STYLES[status], `${count} ${labelOf(status, count)}`)];
  });
  return [...checks.map(linesOf), '', counts.join(', ')].join('\n');
}

function linesOf({ name, status, message, details, remedy }: CheckResult): string {
  const head = `${paint(STYLES[status], (status === 'skipped' ? '-' : status).padEnd(NAME_COLUMN))}${name.padEnd(TEXT_COLUMN - NAME_COLUMN)}`;
  const text = indented(message, TEXT_COLUMN, '');
  const more = [
    ...details.filter((detail) => !message.includes(detail)).map((detail) => indented(detail, NAME_COLUMN, '- ')),
    ...(remedy === null ? [] : [indented(remedy, NAME_COLUMN, '→ ')]),
  ];
  return [`${head}${text.trimStart()}`, ...more].join('\n');
}

/** Breaks a text between words. A word that is longer than a line stays whole, so that it can be copied. */
function indented(text: string, column: number, mark: string): string {
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

function labelOf(status: Status, count: number): string {
  if (status === 'skipped') {
    return 'not checked';
  }
  return status === 'ok' || count === 1 ? status : `${status}s`;
}
