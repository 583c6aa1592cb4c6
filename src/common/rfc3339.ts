/** RFC 3339 section 5.6, the offset required: a time without one would mean another moment on another machine. */
const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/**
 * Reads a time, to the millisecond; seconds may be left out.
 * @returns undefined for anything else, and for what lies outside the years 1 to 9999 in UTC
 */
export function parseTime(text: string): Date | undefined {
  const [, year, month, day] = RFC3339.exec(text)?.map(Number) ?? [];
  if (year === undefined || month === undefined || day === undefined) {
    return undefined;
  }
  // `Date` refuses a month that there is not, but takes the 30th of February for the 2nd of March.
  // A leap year stays one 2,000 years later, where `Date.UTC` does not take a short year for one of the last century.
  if (new Date(Date.UTC(year + 2_000, month - 1, day)).getUTCDate() !== day) {
    return undefined;
  }
  const time = new Date(text);
  return time.getUTCFullYear() >= 1 && time.getUTCFullYear() <= 9_999 ? time : undefined;
}
