import { parseOrderId } from '../order-id.js';
import { parseTime } from '../../common/rfc3339.js';
import type { ImportErrorList } from './import-errors.js';

const INT32_MAX = 2_147_483_647;
const STATUSES = ['pending', 'shipped', 'cancelled'];

/** An order as a file gives it: the text of each field that has a value there. */
export interface OrderText {
  /** The line of the file, counted from 1. */
  readonly line: number;
  readonly fields: Readonly<Partial<Record<OrderField, string>>>;
}

interface FieldRule {
  /** How JSON writes the field. */
  readonly jsonType: 'number' | 'string' | 'boolean';
  readonly required: boolean;
  /** What is right, as the rest of "must be". */
  readonly expected: string;
  /** The value in the one form that the database gets; undefined when it is not right. */
  readonly read: (text: string) => string | undefined;
}

const INT64 = 'an integer from -9223372036854775808 to 9223372036854775807';
// Kept as decimal text all the way: a JavaScript number would turn 9007199254740993 into …992, another order.
const readInt64 = (text: string): string | undefined => parseOrderId(text)?.toString();

const FIELDS = {
  id: { jsonType: 'number', required: false, expected: INT64, read: readInt64 },
  petId: { jsonType: 'number', required: true, expected: INT64, read: readInt64 },
  quantity: {
    jsonType: 'number',
    required: true,
    expected: `a whole number from 1 to ${INT32_MAX}`,
    read: (text) => (/^[1-9]\d{0,9}$/.test(text) && Number(text) <= INT32_MAX ? text : undefined),
  },
  shipDate: {
    jsonType: 'string',
    required: false,
    expected: 'an RFC 3339 time with an offset, like 2026-12-01T10:00:00Z',
    read: (text) => parseTime(text)?.toISOString(),
  },
  complete: {
    jsonType: 'boolean',
    required: false,
    expected: 'true or false',
    // Spreadsheets write TRUE and FALSE.
    read: (text) => (/^(?:true|false)$/i.test(text) ? text.toLowerCase() : undefined),
  },
  status: {
    jsonType: 'string',
    required: false,
    expected: 'pending, shipped or cancelled',
    read: (text) => (STATUSES.includes(text) ? text : undefined),
  },
} as const satisfies Record<string, FieldRule>;

export type OrderField = keyof typeof FIELDS;

/** The rules of all fields that a file may have. */
export const ORDER_FIELDS: Readonly<Record<OrderField, FieldRule>> = FIELDS;

const FIELD_NAMES = Object.keys(FIELDS) as OrderField[];

export function isOrderField(name: string): name is OrderField {
  return Object.hasOwn(FIELDS, name);
}

/** What is wrong with a field that nobody knows. */
export const UNKNOWN_FIELD = `is no field of an order; the fields are ${FIELD_NAMES.join(', ')}`;

/** The columns of {@link copyLineOf}, in its order. */
export const COPY_COLUMNS = 'line, id, pet_id, quantity, ship_date, complete, status, cancelled_at';

const NULL = '\\N';

/**
 * An order as one line of COPY's text format. What the rules let through holds nothing that would have to be escaped.
 * @returns undefined when the order has faults, which are added to the list
 */
export function copyLineOf({ line, fields }: OrderText, faults: ImportErrorList): string | undefined {
  const before = faults.count;
  const read = (field: OrderField): string | undefined => {
    const { required, expected, read: readText } = ORDER_FIELDS[field];
    const text = fields[field];
    if (text === undefined) {
      if (required) {
        faults.add({ line, field, problem: `is missing; it must be ${expected}` });
      }
      return undefined;
    }
    const value = readText(text);
    if (value === undefined) {
      faults.add({ line, field, problem: `must be ${expected}, not ${text}` });
    }
    return value;
  };
  const id = read('id') ?? NULL;
  const petId = read('petId');
  const quantity = read('quantity');
  const shipDate = read('shipDate') ?? NULL;
  const complete = read('complete') ?? 'false';
  // The interface's own orders have no status: one that is complete has been shipped.
  const status = read('status') ?? (complete === 'true' ? 'shipped' : 'pending');
  if (complete === 'true' && status !== 'shipped') {
    const problem = `cannot be true for an order that is ${status}: only a shipped order is complete`;
    faults.add({ line, field: 'complete', problem });
  }
  const cancelledAt = status === 'cancelled' ? 'now' : NULL;
  return faults.count === before
    ? `${[line, id, petId, quantity, shipDate, complete, status, cancelledAt].join('\t')}\n`
    : undefined;
}
