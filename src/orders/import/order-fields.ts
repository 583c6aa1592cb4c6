import { parseTime } from '../../common/rfc3339.js';
import { parseOrderId } from '../order-id.js';
import type { ImportErrors } from './import-errors.js';

const INT32_MAX = 2_147_483_647;
const STATUSES = ['pending', 'shipped', 'cancelled'];

interface FieldRule {
  readonly required?: true;
  /** Continues the sentence "must be …". */
  readonly expected: string;
  /** Converts the text to what is stored; undefined when it is invalid. */
  readonly read: (text: string) => string | undefined;
}

// Decimal text throughout: as a JavaScript number, 9007199254740993 would become …992. Only the canonical form is valid.
const INT64 = {
  expected: 'an integer from -9223372036854775808 to 9223372036854775807',
  read: (text: string) => (parseOrderId(text)?.toString() === text ? text : undefined),
};

export type OrderField = keyof typeof ORDER_FIELDS;

/** An order as read from a file. An empty field is one without a value. */
export type OrderTexts = Readonly<Partial<Record<OrderField, string>>>;

/** The rules of all fields. */
const ORDER_FIELDS = {
  id: INT64,
  petId: { required: true, ...INT64 },
  quantity: {
    required: true,
    expected: `an integer from 1 to ${INT32_MAX}`,
    read: (text) => (/^[1-9]\d{0,9}$/.test(text) && Number(text) <= INT32_MAX ? text : undefined),
  },
  shipDate: {
    expected: 'an RFC 3339 time with an offset, like 2026-12-01T10:00:00Z',
    read: (text) => parseTime(text)?.toISOString(),
  },
  complete: {
    expected: 'true or false',
    // Spreadsheets write TRUE and FALSE.
    read: (text) => (/^(?:true|false)$/i.test(text) ? text.toLowerCase() : undefined),
  },
  status: {
    expected: 'pending, shipped or cancelled',
    read: (text) => (STATUSES.includes(text) ? text : undefined),
  },
} satisfies Readonly<Record<string, FieldRule>>;

export function isOrderField(name: string): name is OrderField {
  return Object.hasOwn(ORDER_FIELDS, name);
}

export const UNKNOWN_FIELD = `is not a field of an order; the fields are ${Object.keys(ORDER_FIELDS).join(', ')}`;

/** The columns of {@link copyLineOf}, in order. */
export const COPY_COLUMNS = 'line, id, pet_id, quantity, ship_date, complete, status, cancelled_at';

const NULL = '\\N';

/**
 * Formats an order as one line of COPY's text format. Valid values contain no character that needs escaping.
 * @param line of the file, counted from 1
 * @returns undefined when the order is invalid; its errors are added
 */
export function copyLineOf(line: number, fields: OrderTexts, errors: ImportErrors): string | undefined {
  const before = errors.count;
  const read = (field: OrderField): string | undefined => {
    const { required, expected, read: readText }: FieldRule = ORDER_FIELDS[field];
    const given = fields[field] ?? '';
    const value = given === '' ? undefined : readText(given);
    if (given === '' && required === true) {
      errors.add(line, `is missing; it must be ${expected}`, field);
    } else if (given !== '' && value === undefined) {
      errors.add(line, `must be ${expected} (got ${given})`, field);
    }
    return value;
  };
  const id = read('id') ?? NULL;
  const petId = read('petId');
  const quantity = read('quantity');
  const shipDate = read('shipDate') ?? NULL;
  const complete = read('complete') ?? 'false';
  // Orders of the published interface have no status: a complete order has been shipped.
  const status = read('status') ?? (complete === 'true' ? 'shipped' : 'pending');
  if (complete === 'true' && status !== 'shipped') {
    errors.add(line, `must be false unless the status is shipped (got status ${status})`, 'complete');
  }
  const cancelledAt = status === 'cancelled' ? 'now' : NULL;
  return errors.count === before
    ? `${[line, id, petId, quantity, shipDate, complete, status, cancelledAt].join('\t')}\n`
    : undefined;
}
