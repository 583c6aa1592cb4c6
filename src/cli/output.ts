import { escapeOf, printable } from '../../prisma/engine/printable.mjs';
import { redactKeys } from '../common/redact-keys.js';

/** Characters of an id that tables show, and that commands need at least to find it. */
const ID_PREFIX_LENGTH = 8;

const SEPARATOR = '  ';
const NUMBER = /^[\d,.% -]*$/;

/**
 * Prints the result of a command: one JSON document with `--json`, otherwise text. Names and values come from outside, and must not
 * command the terminal; in a JSON document the escape means the same character.
 * @param document a string is JSON already
 * @throws {Error} unless the reader has closed the pipe: one like `head` has all it wants
 */
export function print(json: boolean | undefined, document: unknown, text: string): Promise<void> {
  const jsonText = typeof document === 'string' ? document : JSON.stringify(document, null, 2);
  const output = json === true ? jsonText : text;
  return new Promise((resolve, reject) => {
    process.stdout.write(printable(`${output}\n`), (error) => {
      const { code } = (error ?? {}) as NodeJS.ErrnoException;
      if (!error || code === 'EPIPE') {
        resolve();
      } else {
        reject(new Error(`Cannot write to stdout (${code}). If the command changes something, it has done so.`));
      }
    });
  });
}

export function warn(message: string): void {
  writeError(`warning: ${message}\n`);
}

/** An operator may have pasted a key in the place of another value, such as a file name. */
export function writeError(text: string): void {
  process.stderr.write(printable(redactKeys(text)));
}

/** A value within text of several lines: one that ends lines would look like other values. */
export function oneLine(value: string): string {
  return value.replaceAll('\n', escapeOf);
}

/** Formats rows of texts below their titles, numbers aligned to the right. */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const columns = titles.map((title, index) => {
    const texts = rows.map((row) => oneLine(row[index] ?? ''));
    const width = texts.reduce((widest, { length }) => Math.max(widest, length), title.length);
    const isNumeric = texts.every((text) => NUMBER.test(text));
    return [title, ...texts].map((text) => (isNumeric ? text.padStart(width) : text.padEnd(width)));
  });
  const lines = [titles, ...rows].map((_, line) =>
    columns
      .map((column) => column[line])
      .join(SEPARATOR)
      .trimEnd(),
  );
  return lines.join('\n');
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
export function shownId(id: string): string {
  return process.stdout.isTTY ? id.slice(0, ID_PREFIX_LENGTH) : id;
}

/** A number with thousands separators: `1,000,000`. */
export function count(value: number): string {
  return value.toLocaleString('en');
}
