import fc from 'fast-check';
import { parseOrderId } from '../../src/orders/order-id.js';

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const int64 = fc.oneof(fc.bigInt({ min: INT64_MIN, max: INT64_MAX }), fc.constantFrom(INT64_MIN, 0n, INT64_MAX));

describe('parseOrderId', () => {
  it('parses every int64 exactly', () => {
    fc.assert(
      fc.property(int64, (id) => {
        expect(parseOrderId(id.toString())).toBe(id);
      }),
    );
  });

  it('accepts only the canonical form of an int64', () => {
    const text = fc.oneof(
      fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }).map(String),
      fc.constantFrom('-0', String(INT64_MIN - 1n), String(INT64_MAX + 1n), '0x1', '1_0', '1\n', '1\0', '\u0661'),
      fc.stringMatching(/^[-+ ]?[01][0-9]{0,20}(?:[ n]|\.0|e0)?$/),
      fc.string(),
    );
    fc.assert(
      fc.property(text, (written) => {
        const id = parseOrderId(written);
        expect(id === undefined || (String(id) === written && BigInt.asIntN(64, id) === id)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});
