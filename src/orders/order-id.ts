const CANONICAL_DECIMAL = /^-?(?:0|[1-9][0-9]*)$/;
const INT64_DIGITS_MAX = 19;

/**
 * Parses an order id: a decimal int64 in canonical form. A JavaScript number would round 9007199254740993 to
 * 9007199254740992, the id of another order.
 * @returns undefined when the text is not an order id
 */
export function parseOrderId(text: string): bigint | undefined {
  if (text.length > INT64_DIGITS_MAX + 1 || !CANONICAL_DECIMAL.test(text)) {
    return undefined;
  }
  const id = BigInt(text);
  return BigInt.asIntN(64, id) === id ? id : undefined;
}
