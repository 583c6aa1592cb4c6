import { ID_PREFIX_LENGTH } from '../api-keys/key-id.js';

const NUMBER = /^[\d,.% -]*$/;

/**
 * Formats rows of texts below their titles, numbers aligned to the right. Names come last, where their width, in columns of a
 * terminal, moves nothing.
 */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [titles, ...rows];
  const columns = titles.map((_, index) => {
    const texts = lines.map((line) => line[index] ?? '');
    const isNumeric = texts.slice(1).every((text) => NUMBER.test(text));
    const isLast = index === titles.length - 1;
    const width = isLast && !isNumeric ? 0 : texts.reduce((widest, { length }) => Math.max(widest, length), 0);
    return texts.map((text) => (isNumeric ? text.padStart(width) : text.padEnd(width)));
  });
  return lines.map((_, line) => columns.map((column) => column[line]).join('  ')).join('\n');
}

/** An id in a table: on a terminal the characters that commands need to find it. */
export function shownId(id: string, isTerminal = process.stdout.isTTY): string {
  return isTerminal ? id.slice(0, ID_PREFIX_LENGTH) : id;
}

/** A number with thousands separators: `1,000,000`. */
export function count(value: number): string {
  return value.toLocaleString('en');
}
