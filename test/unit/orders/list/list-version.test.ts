import { nameOf } from '../../../../src/orders/list/list-version.js';

describe('the name of a version', () => {
  const named = (tokens: bigint): string =>
    nameOf({ catalogue: 'orders 1 2', tokens: tokens.toString(), renewals: '-3', count: 1 });

  it('keeps all 64 bits of the sum of the tokens, and no more: they are compacted modulo 2^64', () => {
    const names = new Set(Array.from({ length: 64 }, (_, bit) => named(2n ** BigInt(bit))));
    expect(names.size).toBe(64);
    expect(named(5n - 2n ** 64n)).toBe(named(5n));
    expect(named(5n + 2n ** 70n)).toBe(named(5n));
  });

  it('differs with the catalogue and the tokens that concern every block', () => {
    const row = { catalogue: 'orders 1 2', tokens: '5', renewals: '-3', count: 1 };
    const names = [row, { ...row, catalogue: 'orders 1 3' }, { ...row, renewals: '-4' }].map(nameOf);
    expect(new Set(names).size).toBe(3);
  });
});
