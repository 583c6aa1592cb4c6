/** RFC 3339 section 5.6. The offset is required: without it the time would depend on the machine's time zone. */
const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/**
 * Parses a time to the millisecond; the seconds are optional.
 * @returns undefined when the text is invalid or the time is outside the years 1 to 9999 in UTC
 */
export function parseTime(text: string): Date | undefined {
  const [, year = NaN, month = NaN, day = NaN] = RFC3339.exec(text)?.map(Number) ?? [];
  // `Date` rejects an invalid month but reads February 30 as March 2. Adding 2,000 years keeps leap years and avoids
  // `Date.UTC` reading the years 0 to 99 as 1900 to 1999. For a text that does not match, NaN differs from itself.
  if (new Date(Date.UTC(year + 2_000, month - 1, day)).getUTCDate() !== day) {
    return undefined;
  }
  const time = new Date(text);
  return time.getUTCFullYear() >= 1 && time.getUTCFullYear() <= 9_999 ? time : undefined;
}
