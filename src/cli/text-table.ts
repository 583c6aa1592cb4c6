import { styleText } from 'node:util';
import { ID_PREFIX_LENGTH } from '../api-keys/key-id.js';

/** Tables fit the narrowest terminal. In a pipe nothing is cut. */
export const TABLE_WIDTH = 80;
const COLUMN_GAP = '  ';
const ELLIPSIS = '…';
const GRAPHEMES = new Intl.Segmenter();
/** What takes two columns of a terminal: the wide and fullwidth characters of East Asia, and emoji. */
const WIDE = /[ᄀ-ᅟ⺀-\ua4cf\uac00-\ud7a3豈-\ufaff︰-﹯！-｠￠-￦\u{20000}-\u{3fffd}]|\ufe0f|\p{Emoji_Presentation}/u;

export type Style = Parameters<typeof styleText>[0];

/** A column: title, text and, on a terminal with colours, style. */
export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly style?: (row: Row) => Style | undefined;
  readonly align?: 'right';
  /** Its texts are shortened when the table is too wide. One column at most. */
  readonly shortened?: true;
}

/** Formats rows as a table with a header line. */
export function textTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const texts = columns.map(({ title, text }) => [title, ...rows.map(text)]);
  const widths = texts.map((column) => column.reduce((width, text) => Math.max(width, widthOf(text)), 0));
  const total = widths.reduce((sum, width) => sum + width + COLUMN_GAP.length, -COLUMN_GAP.length);
  const excess = process.stdout.isTTY ? Math.max(0, total - Math.max(TABLE_WIDTH, process.stdout.columns)) : 0;
  const cells = columns.map(({ style, align, shortened }, index) => {
    const width = (widths[index] ?? 0) - (shortened === true ? excess : 0);
    return (texts[index] ?? []).map((text, line) => {
      const row = rows[line - 1];
      return paint(row === undefined ? 'dim' : style?.(row), fitted(text, width, align));
    });
  });
  return [-1, ...rows.keys()]
    .map((row) =>
      cells
        .map((column) => column[row + 1])
        .join(COLUMN_GAP)
        .trimEnd(),
    )
    .join('\n');
}

/** The column of the ids: on a terminal as few characters as tell them apart. */
export function idColumn<Row extends { readonly id: string }>(rows: readonly Row[]): Column<Row> {
  const distinct = (length: number): number => new Set(rows.map(({ id }) => id.slice(0, length))).size;
  let length = process.stdout.isTTY ? ID_PREFIX_LENGTH : Infinity;
  while (distinct(length) < distinct(Infinity)) {
    length++;
  }
  return { title: 'ID', text: ({ id }) => id.slice(0, length) };
}

/** Cuts or pads a text to a width in columns of a terminal. */
function fitted(text: string, width: number, align: 'right' | undefined): string {
  let shown = text;
  if (widthOf(text) > width) {
    const graphemes = Array.from(GRAPHEMES.segment(text), ({ segment }) => segment);
    while (widthOf(graphemes.join('')) > width - ELLIPSIS.length) {
      graphemes.pop();
    }
    shown = graphemes.join('') + ELLIPSIS;
  }
  const padding = ' '.repeat(width - widthOf(shown));
  return align === 'right' ? padding + shown : shown + padding;
}

function widthOf(text: string): number {
  return /^[ -~]*$/.test(text)
    ? text.length
    : Array.from(GRAPHEMES.segment(text), ({ segment }): number => (WIDE.test(segment) ? 2 : 1)).reduce(
        (a, b) => a + b,
      );
}

/** Colours on a terminal only, and not with NO_COLOR; `styleText` checks both. */
export function paint(style: Style | undefined, text: string): string {
  return style === undefined ? text : styleText(style, text, { stream: process.stdout });
}
