const CANONICAL_DECIMAL = /^-?(?:0|[1-9][0-9]*)$/;
const INT64_DIGITS_MAX = 19;
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/**
 * Reads an order identifier: a canonical decimal int64, exact over the whole range, which a JavaScript number is not
 * (9007199254740993 would become …992, another order).
 * @returns undefined for anything else
 */
export function parseOrderId(text: string): bigint | undefined {
  if (text.length > INT64_DIGITS_MAX + 1 || !CANONICAL_DECIMAL.test(text)) {
    return undefined;
  }
  const id = BigInt(text);
  return id >= INT64_MIN && id <= INT64_MAX ? id : undefined;
}
