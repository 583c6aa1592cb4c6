import { etagOf, matchesEtag } from '../../../src/orders/etag.js';

describe('etagOf', () => {
  it('gives a weak tag of characters that every header may hold', () => {
    expect(etagOf('7391/1/5/100:105:101')).toMatch(/^W\/"[A-Za-z0-9_-]{22}"$/);
  });

  it('gives one snapshot one tag and other snapshots other tags', () => {
    expect(etagOf('100:105:101')).toBe(etagOf('100:105:101'));
    const snapshots = ['', '100:105:', '100:105:101', '100:105:101,102', '100:106:101', '101:105:101'];
    expect(new Set(snapshots.map(etagOf)).size).toBe(snapshots.length);
  });
});

describe('matchesEtag', () => {
  const etag = 'W/"abc-123_DEF"';

  it.each<[string | undefined, boolean]>([
    [undefined, false],
    ['', false],
    ['   ', false],
    ['*', true],
    [' * ', true],
    // An asterisk stands alone (RFC 9110 section 13.1.2); in quotes it is a tag.
    ['"*"', false],
    ['W/"*"', false],
    ['W/"abc-123_DEF"', true],
    // Weak comparison: only the opaque tags are compared (RFC 9110 section 8.8.3.2).
    ['"abc-123_DEF"', true],
    [' W/"abc-123_DEF" ', true],
    ['"x", W/"abc-123_DEF"', true],
    ['"x","y","abc-123_DEF"', true],
    ['W/"abc-123_DEF", "x"', true],
    [',, "abc-123_DEF" ,', true],
    ['"x\t", "abc-123_DEF"', true],
    // Commas and blanks are content inside a tag, not separators.
    ['"x,y", "abc-123_DEF"', true],
    ['"", "abc-123_DEF"', true],
    ['""', false],
    ['"x"', false],
    ['"x", W/"y"', false],
    ['abc-123_DEF', false],
    ['W/abc-123_DEF', false],
    ['"abc-123_DEF', false],
    ['abc-123_DEF"', false],
    ['"abc-123_DE"', false],
    ['"abc-123_DEFG"', false],
    ['"ABC-123_DEF"', false],
    ['" abc-123_DEF"', false],
    ['"W/abc-123_DEF"', false],
    ['"x, abc-123_DEF"', false],
  ])('reads If-None-Match %p and answers %p', (ifNoneMatch, matches) => {
    expect(matchesEtag(ifNoneMatch, etag)).toBe(matches);
  });

  it('takes no longer for a header full of quotes than for any other of its length', () => {
    const start = performance.now();
    expect(matchesEtag('"'.repeat(8_001) + 'W/'.repeat(4_000), etag)).toBe(false);
    expect(performance.now() - start).toBeLessThan(200);
  });
});
