/** An int64 has up to 19 digits; zero has no sign. */
const CANONICAL_DECIMAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

/**
 * Parses an order id: a decimal int64 in canonical form. A JavaScript number would round 9007199254740993 to
 * 9007199254740992, the id of another order.
 * @returns undefined when the text is not an order id
 */
export function parseOrderId(text: string): bigint | undefined {
  const id = CANONICAL_DECIMAL.test(text) ? BigInt(text) : undefined;
  return id !== undefined && BigInt.asIntN(64, id) === id ? id : undefined;
}
