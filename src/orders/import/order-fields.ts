import { parseOrderId } from '../order-id.js';
import { parseTime } from '../../common/rfc3339.js';
import type { ImportErrorList } from './import-errors.js';

const INT32_MAX = 2_147_483_647;
const STATUSES = ['pending', 'shipped', 'cancelled'];

/** A JSON value of the wrong type, described for the error message. */
export class WrongType {
  constructor(readonly description: string) {}
}

/** An order as read from a file. Fields without a value are omitted. */
export interface OrderText {
  /** Line of the file, counted from 1. */
  readonly line: number;
  readonly fields: Readonly<Partial<Record<OrderField, string | WrongType>>>;
}

interface FieldRule {
  /** Type of the field in JSON. */
  readonly jsonType: 'number' | 'string' | 'boolean';
  readonly required: boolean;
  /** Continues the sentence "must be …". */
  readonly expected: string;
  /** Converts the text to what is stored; undefined when it is invalid. */
  readonly read: (text: string) => string | undefined;
}

const INT64 = 'an integer from -9223372036854775808 to 9223372036854775807';
// Decimal text throughout: as a JavaScript number, 9007199254740993 would become …992. Only the canonical form is valid.
const readInt64 = (text: string): string | undefined => (parseOrderId(text)?.toString() === text ? text : undefined);

const FIELDS = {
  id: { jsonType: 'number', required: false, expected: INT64, read: readInt64 },
  petId: { jsonType: 'number', required: true, expected: INT64, read: readInt64 },
  quantity: {
    jsonType: 'number',
    required: true,
    expected: `an integer from 1 to ${INT32_MAX}`,
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

/** The rules of all fields. */
export const ORDER_FIELDS: Readonly<Record<OrderField, FieldRule>> = FIELDS;

const FIELD_NAMES = Object.keys(FIELDS) as OrderField[];

export function isOrderField(name: string): name is OrderField {
  return Object.hasOwn(FIELDS, name);
}

export const UNKNOWN_FIELD = `is not a field of an order; the fields are ${FIELD_NAMES.join(', ')}`;

/** The columns of {@link copyLineOf}, in order. */
export const COPY_COLUMNS = 'line, id, pet_id, quantity, ship_date, complete, status, cancelled_at';

const NULL = '\\N';

/**
 * Formats an order as one line of COPY's text format. Valid values contain no character that needs escaping.
 * @returns undefined when the order is invalid; its errors are added to the list
 */
export function copyLineOf({ line, fields }: OrderText, errors: ImportErrorList): string | undefined {
  const before = errors.count;
  const read = (field: OrderField): string | undefined => {
    const { required, expected, read: readText } = ORDER_FIELDS[field];
    const given = fields[field];
    if (given === undefined) {
      if (required) {
        errors.add({ line, field, problem: `is missing; it must be ${expected}` });
      }
      return undefined;
    }
    const isText = typeof given === 'string';
    const value = isText ? readText(given) : undefined;
    if (value === undefined) {
      errors.add({ line, field, problem: `must be ${expected} (got ${isText ? `"${given}"` : given.description})` });
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
    errors.add({
      line,
      field: 'complete',
      problem: `must be false unless the status is shipped (got status "${status}")`,
    });
  }
  const cancelledAt = status === 'cancelled' ? 'now' : NULL;
  return errors.count === before
    ? `${[line, id, petId, quantity, shipDate, complete, status, cancelledAt].join('\t')}\n`
    : undefined;
}
