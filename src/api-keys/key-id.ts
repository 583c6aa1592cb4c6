const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const LOWEST = '00000000-0000-0000-0000-000000000000';
const HIGHEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** Characters of an id that tables show, and that commands need at least to find it. */
export const ID_PREFIX_LENGTH = 8;

/** The ids that begin with a prefix, both ends included. */
export interface IdRange {
  readonly lowest: string;
  readonly highest: string;
}

/** Whether a text is an id or its first characters. */
export function isIdPrefix(text: string): boolean {
  return text.length >= ID_PREFIX_LENGTH && UUID.test(idRangeOf(text).lowest);
}

/** @param prefix for which {@link isIdPrefix} is true */
export function idRangeOf(prefix: string): IdRange {
  const filledWith = (end: string): string => (prefix + end.slice(prefix.length)).toLowerCase();
  return { lowest: filledWith(LOWEST), highest: filledWith(HIGHEST) };
}
