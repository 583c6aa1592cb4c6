import { styleText } from 'node:util';

/** Tables fit a terminal of this width. */
export const TABLE_WIDTH = 80;
const COLUMN_GAP = '  ';
const ELLIPSIS = '…';

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
  const widths = texts.map((column) => column.reduce((width, { length }) => Math.max(width, length), 0));
  const excess = widths.reduce((sum, width) => sum + width + COLUMN_GAP.length, -COLUMN_GAP.length) - TABLE_WIDTH;
  const cells = columns.map(({ style, align, shortened }, index) => {
    const width = (widths[index] ?? 0) - (shortened === true ? Math.max(0, excess) : 0);
    return (texts[index] ?? []).map((text, line) => {
      const row = rows[line - 1];
      const fitting = text.length > width ? `${text.slice(0, Math.max(0, width - 1))}${ELLIPSIS}` : text;
      const padded = align === 'right' ? fitting.padStart(width) : fitting.padEnd(width);
      return paint(row === undefined ? 'dim' : style?.(row), padded);
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

/** Colours on a terminal only, and not with NO_COLOR; `styleText` checks both. */
export function paint(style: Style | undefined, text: string): string {
  return style === undefined ? text : styleText(style, text, { stream: process.stdout });
}
