import fc from 'fast-check';
import { parseOrderId } from '../../../src/orders/order-id.js';

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

  it('rejects every integer outside int64', () => {
    const outside = fc.oneof(
      fc.bigInt({ min: INT64_MAX + 1n, max: 2n ** 200n }),
      fc.bigInt({ min: -(2n ** 200n), max: INT64_MIN - 1n }),
      fc.constantFrom(INT64_MIN - 1n, INT64_MAX + 1n),
    );
    fc.assert(
      fc.property(outside, (id) => {
        expect(parseOrderId(id.toString())).toBeUndefined();
      }),
    );
  });

  it('rejects an int64 in any other notation', () => {
    const notations: ((digits: string) => string)[] = [
      (digits) => digits.replace(/(?=\d)/, '0'),
      (digits) => `+${digits}`,
      (digits) => ` ${digits}`,
      (digits) => `${digits} `,
      (digits) => `${digits}\n`,
      (digits) => `${digits}.0`,
      (digits) => `${digits}e0`,
      (digits) => `${digits}n`,
      (digits) => `${digits}\0`,
      (digits) => `"${digits}"`,
      (digits) => digits.replace(/\d$/, (digit) => String.fromCodePoint(0x0660 + Number(digit))),
    ];
    fc.assert(
      fc.property(int64, fc.constantFrom(...notations), (value, notation) => {
        expect(parseOrderId(notation(value.toString()))).toBeUndefined();
      }),
    );
  });

  it('accepts only the canonical form of an id', () => {
    // Minus zero is the only exception.
    const text = fc.oneof(fc.string(), fc.stringMatching(/^[-+ 0-9.eExXn_]{0,22}$/)).filter((each) => each !== '-0');
    fc.assert(
      fc.property(text, (written) => {
        expect([undefined, written]).toContain(parseOrderId(written)?.toString());
      }),
    );
  });
});
