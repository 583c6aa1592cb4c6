import { ValidateBy, validateSync } from 'class-validator';
import { parseTime } from '../../common/rfc3339.js';
import { ORDER_COLUMNS } from '../order-columns.js';
import { parseOrderId } from '../order-id.js';
import type { ImportErrors } from './import-errors.js';

const INT64 = 'an integer from -9223372036854775808 to 9223372036854775807';
const INT32_MAX = 2_147_483_647;
const STATUSES = ['pending', 'shipped', 'cancelled'];
/** NULL. Not an empty field, which may have been cut off. */
const NONE = 'none';

export const ORDER_FIELDS = [...ORDER_COLUMNS.map(({ name }) => name), 'status'] as const;
export const REQUIRED_FIELDS = ['petId', 'quantity'] as const;
export type OrderField = (typeof ORDER_FIELDS)[number];

/** @param expected continues the sentence "must be …" */
function MustBe(expected: string, accepts: (text: string, row: OrderRow) => boolean): PropertyDecorator {
  return ValidateBy({
    name: expected,
    validator: {
      validate: (text: string, args) => text !== '' && accepts(text, args?.object as OrderRow),
      defaultMessage: (args) => (args?.value === '' ? `is empty; it must be ${expected}` : `must be ${expected}`),
    },
  });
}

const isInt64 = (text: string): boolean => parseOrderId(text) !== undefined;
// Spreadsheets write TRUE and FALSE.
const isTrue = (text = ''): boolean => text.toLowerCase() === 'true';
const isBoolean = (text: string): boolean => isTrue(text) || text.toLowerCase() === 'false';

/** A row of the file. As JavaScript numbers, its ids would be rounded. Undefined: the file has no column for the field. */
class OrderRow {
  @MustBe(INT64, isInt64)
  readonly id?: string;

  @MustBe(INT64, isInt64)
  readonly petId!: string;

  @MustBe(`an integer from 1 to ${INT32_MAX}`, (text) => /^[1-9]\d{0,9}$/.test(text) && Number(text) <= INT32_MAX)
  readonly quantity!: string;

  @MustBe(
    `an RFC 3339 time with an offset, like 2026-12-01T10:00:00Z, or ${NONE}`,
    (text) => text === NONE || parseTime(text) !== undefined,
  )
  readonly shipDate?: string;

  // The decorator below is the first one that is checked.
  @MustBe('false unless the status is shipped', (text, { status }) => !isTrue(text) || !isOpen(status))
  @MustBe('true or false', isBoolean)
  readonly complete?: string;

  @MustBe('pending, shipped or cancelled', (text) => STATUSES.includes(text))
  readonly status?: string;
}

const isOpen = (status?: string): boolean => status === 'pending' || status === 'cancelled';

/** The columns of {@link copyLineOf}, in order. */
export const COPY_COLUMNS = ['line', ...ORDER_COLUMNS.map(({ column }) => column), 'status', 'cancelled_at'].join(', ');

const NULL = '\\N';

/**
 * Formats a row as one line of COPY's text format. Valid values contain no character that needs escaping.
 * @param line of the file, counted from 1
 * @returns undefined when the row is invalid; its errors are added
 */
export function copyLineOf(
  line: number,
  values: Readonly<Partial<Record<OrderField, string>>>,
  errors: ImportErrors,
): string | undefined {
  const row = Object.assign(new OrderRow(), values);
  const invalid = validateSync(row, { skipMissingProperties: true, stopAtFirstError: true });
  for (const { property, value, constraints } of invalid) {
    const got = value === '' ? '' : ` (got ${value as string})`;
    errors.add(line, Object.values(constraints ?? {}).join() + got, property);
  }
  if (invalid.length > 0) {
    return undefined;
  }
  const { id = NULL, petId, quantity, shipDate = NONE } = row;
  const complete = isTrue(row.complete);
  // Orders of the published interface have no status: a complete order has been shipped.
  const status = row.status ?? (complete ? 'shipped' : 'pending');
  const shipTime = shipDate === NONE ? NULL : new Date(shipDate).toISOString();
  const cancelledAt = status === 'cancelled' ? 'now' : NULL;
  return `${[line, id, petId, quantity, shipTime, complete, status, cancelledAt].join('\t')}\n`;
}
