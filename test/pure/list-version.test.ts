import {
  etagOf,
  matchesEtag,
  type NameRow,
  representationOf,
  sumsOf,
  versionOf,
} from '../../src/orders/list/list-version.js';
import { ORDER_COLUMNS, type OrderColumn } from '../../src/orders/order-columns.js';

const ROW: NameRow = {
  catalogue: 'digest',
  tokens: '5',
  renewals: '-3',
};
const nameOf = (row: NameRow): string => versionOf(row).name;

describe('the name of a version', () => {
  const named = (tokens: bigint): string => nameOf({ ...ROW, tokens: tokens.toString() });

  it('keeps all 64 bits of the sum of the tokens, and no more: they are merged modulo 2^64', () => {
    const names = new Set(Array.from({ length: 64 }, (_, bit) => named(2n ** BigInt(bit))));
    expect(names.size).toBe(64);
    expect(named(5n - 2n ** 64n)).toBe(named(5n));
    expect(named(5n + 2n ** 70n)).toBe(named(5n));
  });

  it('differs with the catalogue, and not with the rows that the sum is of', () => {
    expect(nameOf({ ...ROW, catalogue: 'other' })).not.toBe(nameOf(ROW));
    expect(nameOf({ ...ROW, renewals: '4' })).toBe(nameOf(ROW));
  });

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
    expect(nameOf(ROW)).toContain(representationOf(ORDER_COLUMNS));
  });
});

describe('a version', () => {
  it('has another basis for another catalogue and after a renewal', () => {
    const bases = [ROW, { ...ROW, catalogue: 'other' }, { ...ROW, renewals: '4' }].map((row) => versionOf(row).basis);
    expect(new Set(bases).size).toBe(3);
  });
});

it('each range has a sum modulo 2^64, also one without tokens', () => {
  const rows = [
    { range: 2, tokens: '1' },
    { range: 0, tokens: '18446744073709551623' },
  ];
  expect(sumsOf(rows, 4)).toEqual(['7', '0', '1', '0']);
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
  ['W/"abc-123_DEF"', true],
  // Weak comparison: only the opaque tags are compared (RFC 9110 section 8.8.3.2).
  ['"abc-123_DEF"', true],
  [' W/"abc-123_DEF" ', true],
  ['"x","y","abc-123_DEF"', true],
  ['"\u00e9","abc-123_DEF"', true],
  // Commas and spaces inside a tag are content, not separators.
  ['"x,y", "abc-123_DEF"', true],
  ['"x"', false],
  ['abc-123_DEF', false],
  ['"abc-123_DEF', false],
  ['"abc-123_DEFG"', false],
  ['"W/abc-123_DEF"', false],
  // Something else in the place of W/ or a comma.
  ['xW/"abc-123_DEF"', false],
  ['"x, abc-123_DEF"', false],
])('matchesEtag returns for If-None-Match %p: %p', (ifNoneMatch, matches) => {
  expect(matchesEtag(ifNoneMatch, etag)).toBe(matches);
});
