import { fstatSync, statSync } from 'node:fs';
import { escapeOf, UNPRINTABLE } from '../../prisma/engine/printable.mjs';
import { asError } from '../common/as-error.js';
import { redactKeys } from '../common/redact-keys.js';

/** But for the ends of lines. */
const ESCAPED = new RegExp(`(?!\\n)${UNPRINTABLE}`, 'gu');

/** Characters of an id that tables show, and that commands need at least to find it. */
export const ID_PREFIX_LENGTH = 8;

const SEPARATOR = '  ';
const NUMBER = /^[\d,.% -]*$/;

/**
 * Everything is written through this: names, paths, values of a file and messages of servers come from outside, and must not
 * command the terminal. In a JSON document the escape means the same character.
 */
function escaped(text: string): string {
  return text.replace(ESCAPED, escapeOf);
}

/** A value within text of several lines: one that ends lines would look like other values. */
export function oneLine(value: string): string {
  return value.replaceAll('\n', escapeOf);
}

/** Whether nobody sees the output. Node opens the null device in the place of a closed stdout. */
export function isDiscarded(): boolean {
  const { fd } = process.stdout as Partial<typeof process.stdout>;
  return fd !== undefined && fstatSync(fd).rdev === statSync('/dev/null', { throwIfNoEntry: false })?.rdev;
}

/**
 * Writes the output of a command: one JSON document with `--json`, otherwise text.
 * @param document a string is JSON already
 * @returns the code of the error when that fails, such as `ENOSPC`
 */
export function writeOut(json: boolean | undefined, document: unknown, text: string): Promise<string | undefined> {
  const jsonText = typeof document === 'string' ? document : JSON.stringify(document, null, 2);
  const output = json === true ? jsonText : text;
  return new Promise((resolve) => {
    process.stdout.write(escaped(`${output}\n`), (error) => {
      resolve(error ? ((error as NodeJS.ErrnoException).code ?? error.message) : undefined);
    });
  });
}

/** As {@link writeOut}. A closed pipe is no error: its reader, such as `head`, has all it wants. */
export async function print(json: boolean | undefined, document: unknown, text: string): Promise<void> {
  const failure = await writeOut(json, document, text);
  if (failure !== undefined && failure !== 'EPIPE') {
    throw new Error(`Cannot write to stdout (${failure})`);
  }
}

/** Prints the result of a committed change. A failure to print is a warning: the command has succeeded. */
export function printResult(json: boolean | undefined, document: unknown, text: string): Promise<void> {
  return print(json, document, text).catch((error: unknown) => {
    warn(`${asError(error).message}; the changes are committed.`);
  });
}

export function warn(message: string): void {
  writeError(`warning: ${message}\n`);
}

/** An operator may have pasted a key in the place of another value, such as a file name. */
export function writeError(text: string): void {
  process.stderr.write(escaped(redactKeys(text)));
}

/** Characters that take two columns of a terminal. */
const WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uFF01-\uFF60]/u;
const LAST_COLUMN_MIN = 4;

/** Cuts a text to so many columns. */
function cut(text: string, width: number): string {
  let [shown, used] = ['', 0];
  for (const character of text) {
    used += WIDE.test(character) ? 2 : 1;
    if (used > width) {
      return `${shown.trimEnd()}…`;
    }
    // Leaves one column for the mark.
    shown = used < width ? shown + character : shown;
  }
  return text;
}

const terminalWidth = (): number => (process.stdout.isTTY ? process.stdout.columns || 80 : Infinity);

/** A space between words, outside of quotes: a quoted command or name can be copied. */
const BETWEEN_WORDS = / (?=[^ ])(?=(?:[^"]*"[^"]*")*[^"]*$)/;

/** Breaks a line at the width of the terminal, and begins the further lines with so many spaces. In a pipe it stays whole. */
export function wrap(line: string, indent = 0, maxWidth = terminalWidth()): string {
  const [first = '', ...words] = line.split(BETWEEN_WORDS);
  const lines = [first];
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`;
    if (longer.length <= maxWidth) {
      lines.splice(-1, 1, longer);
    } else {
      lines.push(' '.repeat(indent) + word);
    }
  }
  return lines.join('\n');
}

/**
 * Formats rows of texts below their titles, numbers aligned to the right. Names come last, where their width, in columns of a
 * terminal, moves nothing, and are cut to the width of the terminal. In a pipe no text is cut.
 */
export function table(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  maxWidth = terminalWidth(),
): string {
  const lines = [titles, ...rows.map((row) => row.map(oneLine))];
  let left = maxWidth;
  const columns = titles.map((_, index) => {
    const texts = lines.map((line) => line[index] ?? '');
    const isNumeric = texts.slice(1).every((text) => NUMBER.test(text));
    const isLast = index === titles.length - 1;
    if (isLast && !isNumeric) {
      return texts.map((text) => cut(text, Math.max(left, LAST_COLUMN_MIN)));
    }
    const width = texts.reduce((widest, { length }) => Math.max(widest, length), 0);
    left -= width + SEPARATOR.length;
    return texts.map((text) => (isNumeric ? text.padStart(width) : text.padEnd(width)));
  });
  return lines.map((_, line) => columns.map((column) => column[line]).join(SEPARATOR)).join('\n');
}

/** Formats an object: a line for each field that has a value. */
export function details(object: object): string {
  return Object.entries(object)
    .filter(([, value]) => value !== null)
    .map(([field, value]) => `${field.padEnd(19)}${value instanceof Date ? timeText(value) : oneLine(String(value))}`)
    .join('\n');
}

/** A time as text. PostgreSQL has some that JavaScript cannot represent, such as the year 10000. */
export function timeText(time: Date): string {
  return Number.isNaN(time.getTime()) ? 'invalid' : time.toISOString();
}

/** An id in a table: on a terminal the characters that commands need to find it. */
export function shownId(id: string, isTerminal = process.stdout.isTTY): string {
  return isTerminal ? id.slice(0, ID_PREFIX_LENGTH) : id;
}

/** A number with thousands separators: `1,000,000`. */
export function count(value: number): string {
  return value.toLocaleString('en');
}
