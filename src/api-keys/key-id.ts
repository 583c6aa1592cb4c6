const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** RFC 9562 section 5.9. */
const NIL_UUID = '00000000-0000-0000-0000-000000000000';
/** Characters of an id that tables show, and that commands need at least to find it. */
export const ID_PREFIX_LENGTH = 8;

/** Whether a text is an id or its first characters. */
export function isIdPrefix(text: string): boolean {
  return text.length >= ID_PREFIX_LENGTH && UUID.test(text + NIL_UUID.slice(text.length));
}
