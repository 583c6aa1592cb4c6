import { etagOf, matchesEtag, representationOf, versionOf } from '../../src/orders/list/list-version.js';
import { ORDER_COLUMNS, type OrderColumn } from '../../src/orders/order-columns.js';

describe('the name of a version', () => {
  const nameOf = (tokens: bigint): string =>
    versionOf({ catalogue: 'digest', tokens: tokens.toString(), renewals: '-3' }).name;

  it('differs when any of the 64 bits of the sum of the tokens does, and is the same for sums that are equal modulo 2^64', () => {
    const names = new Set(Array.from({ length: 64 }, (_, bit) => nameOf(2n ** BigInt(bit))));
    expect(names.size).toBe(64);
    expect(nameOf(5n - 2n ** 64n)).toBe(nameOf(5n));
  });

  // Versions of the service beside each other may show other columns.
  it('differs with each property by which orders are shown', () => {
    const changed = (change: Partial<OrderColumn>): OrderColumn[] =>
      ORDER_COLUMNS.map((column, index) => (index === 1 ? { ...column, ...change } : column));
    const columns = [
      ORDER_COLUMNS,
      ORDER_COLUMNS.slice(1),
      ORDER_COLUMNS.toReversed(),
      changed({ name: 'other' }),
      changed({ column: 'other' }),
      changed({ type: 'text' }),
    ];
    expect(new Set(columns.map(representationOf)).size).toBe(columns.length);
    expect(nameOf(5n)).toContain(representationOf(ORDER_COLUMNS));
  });
});

const etag = etagOf({ name: 'abc-123_DEF', basis: '' });

it('the entity tag of a version is weak: it is the same for a compressed list', () => {
  expect(etag).toBe('W/"abc-123_DEF"');
});

it.each<[string | undefined, boolean]>([
  [undefined, false],
  ['*', true],
  // An asterisk is valid only alone (RFC 9110 section 13.1.2); in quotes it is a tag.
  ['"*"', false],
  // Weak comparison: only the opaque tags are compared (RFC 9110 section 8.8.3.2).
  ['"abc-123_DEF"', true],
  ['"x","\u00e9",W/"abc-123_DEF"', true],
  // Commas and spaces inside a tag are content, not separators.
  ['"x,y", "abc-123_DEF"', true],
  ['"x, abc-123_DEF"', false],
  ['abc-123_DEF', false],
  ['"abc-123_DEFG"', false],
])('matchesEtag returns for If-None-Match %p: %p', (ifNoneMatch, matches) => {
  expect(matchesEtag(ifNoneMatch, etag)).toBe(matches);
});
