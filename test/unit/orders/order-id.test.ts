import fc from 'fast-check';
import { parseOrderId } from '../../../src/orders/order-id.js';

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

describe('parseOrderId', () => {
  it('parses every int64 exactly', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: INT64_MIN, max: INT64_MAX }), (id) => {
        expect(parseOrderId(id.toString())).toBe(id);
      }),
    );
  });

  it.each([INT64_MIN, INT64_MIN + 1n, -(2n ** 53n) - 1n, -1n, 0n, 1n, 2n ** 53n + 1n, INT64_MAX - 1n, INT64_MAX])(
    'reads %p',
    (id) => {
      expect(parseOrderId(id.toString())).toBe(id);
    },
  );

  it('rejects every integer outside int64', () => {
    const outside = fc.oneof(
      fc.bigInt({ min: INT64_MAX + 1n, max: 2n ** 200n }),
      fc.bigInt({ min: -(2n ** 200n), max: INT64_MIN - 1n }),
    );
    fc.assert(
      fc.property(outside, (id) => {
        expect(parseOrderId(id.toString())).toBeUndefined();
      }),
    );
  });

  it.each([INT64_MIN - 1n, INT64_MAX + 1n, 2n ** 64n, 10n ** 19n, -(10n ** 19n)])('rejects %p', (id) => {
    expect(parseOrderId(id.toString())).toBeUndefined();
  });

  it('rejects an int64 in any other notation', () => {
    const id = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
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
      fc.property(id, fc.constantFrom(...notations), (value, notation) => {
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
