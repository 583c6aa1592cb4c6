import { parseTime } from '../../common/rfc3339.js';
import { ORDER_COLUMNS } from '../order-columns.js';
import { parseOrderId } from '../order-id.js';

const INT64 = 'an integer from -9223372036854775808 to 9223372036854775807';
const INT32_MAX = 2_147_483_647;
const STATUSES = ['pending', 'shipped', 'cancelled'];
/** NULL. Not an empty field, which may have been cut off. */
const NONE = 'none';
/** Longer texts are cut: what they quote is better read in the file. */
const EXCERPT_CHARACTERS_MAX = 50;

export const ORDER_FIELDS = [...ORDER_COLUMNS.map(({ name }) => name), 'status'] as const;
export const REQUIRED_FIELDS = ['petId', 'quantity'] as const;
type OrderField = (typeof ORDER_FIELDS)[number];

/** A row of the file. As JavaScript numbers, its ids would be rounded. Undefined: the file has no column for the field. */
export type OrderRow = Readonly<Partial<Record<OrderField, string>>>;

const isInt64 = (text: string): boolean => parseOrderId(text) !== undefined;
// Spreadsheets write TRUE and FALSE.
const isTrue = (text = ''): boolean => text.toLowerCase() === 'true';

/** What each field must be, and whether a text is that. */
const RULES: Readonly<Record<OrderField, [mustBe: string, accepts: (text: string, row: OrderRow) => boolean]>> = {
  id: [INT64, isInt64],
  petId: [INT64, isInt64],
  quantity: [`an integer from 1 to ${INT32_MAX}`, (text) => /^[1-9]\d{0,9}$/.test(text) && Number(text) <= INT32_MAX],
  shipDate: [
    `an RFC 3339 time with an offset, like 2026-12-01T10:00:00Z, or ${NONE}`,
    (text) => text === NONE || parseTime(text) !== undefined,
  ],
  complete: [
    'true or false, and true only when the status is shipped',
    (text, { status = 'shipped' }) => (isTrue(text) ? status === 'shipped' : text.toLowerCase() === 'false'),
  ],
  status: ['pending, shipped or cancelled', (text) => STATUSES.includes(text)],
};

/** @returns a text for each invalid field */
export function problemsOf(row: OrderRow): string[] {
  const invalid = ORDER_FIELDS.filter((field) => row[field] !== undefined && !RULES[field][1](row[field], row));
  return invalid.map((field) => `${field} must be ${RULES[field][0]} (got ${excerpt(row[field])})`);
}

/** A text as JSON, which escapes control characters. */
export function excerpt(text = ''): string {
  return JSON.stringify(text.length > EXCERPT_CHARACTERS_MAX ? `${text.slice(0, EXCERPT_CHARACTERS_MAX)}…` : text);
}

/** The columns of {@link copyLineOf}, in order. */
export const COPY_COLUMNS = ['line', ...ORDER_COLUMNS.map(({ column }) => column), 'status', 'cancelled_at'].join(', ');

const NULL = '\\N';

/**
 * Formats a valid row as one line of COPY's text format. Valid values contain no character that needs escaping.
 * @param line of the file, counted from 1
 */
export function copyLineOf(line: number, row: OrderRow): string {
  const { id = NULL, petId, quantity, shipDate = NONE } = row;
  const complete = isTrue(row.complete);
  // Orders of the published interface have no status: a complete order has been shipped.
  const status = row.status ?? (complete ? 'shipped' : 'pending');
  const shipTime = shipDate === NONE ? NULL : new Date(shipDate).toISOString();
  const cancelledAt = status === 'cancelled' ? 'now' : NULL;
  return `${[line, id, petId, quantity, shipTime, complete, status, cancelledAt].join('\t')}\n`;
}
