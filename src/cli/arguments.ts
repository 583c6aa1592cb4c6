import { InvalidArgumentError } from 'commander';
import { UNPRINTABLE } from '../../prisma/engine/printable.mjs';
import { parseTime } from '../common/rfc3339.js';
import { parseOrderId } from '../orders/order-id.js';

const INT32_MAX = 2_147_483_647;
const FIRST_DAY = '2000-01-01';
const DURATION = /^(\d{1,6})(s|m|h|d)$/;

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The command cannot run as given, and nothing was done. */
export class UsageError extends Error {}

/** An integer from `min` to `max`; by default up to the largest integer of the database column. */
export function integer(min: number, max: number = INT32_MAX): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
    if (!(value >= min && value <= max)) {
      throw new InvalidArgumentError(`It must be an integer from ${min} to ${max}.`);
    }
    return value;
  };
}

/** The id of an order. */
export function orderId(text: string): bigint {
  const id = parseOrderId(text);
  if (id === undefined) {
    throw new InvalidArgumentError('It must be an integer from -9223372036854775808 to 9223372036854775807.');
  }
  return id;
}

/** The id of a key or the first characters of it. The message does not contain the text: it may be the key itself. */
export function keyId(text: string): string {
  if (!/^[0-9a-f]{8}(?:-[0-9a-f-]{0,27})?$/i.test(text)) {
    throw new UsageError(
      'The id must be the UUID of a key or at least its first 8 characters, not the key itself; "petstore keys list" shows the ids.',
    );
  }
  return text.toLowerCase();
}

/** The name of the key's holder, trimmed; as the constraints of the table. */
export function keyName(text: string): string {
  const name = text.trim();
  if (/pst_[0-9A-Za-z]{43}/.test(name)) {
    throw new InvalidArgumentError('It must not contain an API key, which would be stored in plain text.');
  }
  // Code points: a character such as an emoji can take two units of a string.
  if (name === '' || Array.from(name).length > 200 || new RegExp(UNPRINTABLE, 'u').test(name)) {
    throw new InvalidArgumentError(
      'It must have 1 to 200 characters, and no control characters or marks that change text direction.',
    );
  }
  return name;
}

/** A time in the future. */
export function futureTime(text: string): Date {
  const time = parseTime(text);
  if (time === undefined || time.getTime() <= Date.now()) {
    throw new InvalidArgumentError(
      'It must be an RFC 3339 time in the future with an offset, like 2027-01-31T12:00:00Z.',
    );
  }
  return time;
}

/** A UTC day like 2026-11-22, today or earlier. */
export function pastDay(text: string): string {
  const today = new Date().toISOString().slice(0, 10);
  if (parseTime(`${text}T00:00:00Z`) === undefined || text < FIRST_DAY || text > today) {
    throw new InvalidArgumentError(`It must be a day from ${FIRST_DAY} to today, ${today} in UTC.`);
  }
  return text;
}

/** A duration in milliseconds. */
export function duration(text: string): number {
  const [, amount, unit = ''] = DURATION.exec(text === '0' ? '0s' : text) ?? [];
  const unitMs = UNIT_MS[unit];
  if (unitMs === undefined) {
    throw new InvalidArgumentError('It must be a duration like 90s, 30m, 24h or 7d, or 0.');
  }
  return Number(amount) * unitMs;
}
