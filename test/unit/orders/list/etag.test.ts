import { etagOf, matchesEtag } from '../../../../src/orders/list/etag.js';

describe('etagOf', () => {
  it('returns a weak entity tag of valid characters', () => {
    expect(etagOf('7391/1/5/100:105:101')).toMatch(/^W\/"[A-Za-z0-9_-]{22}"$/);
  });

  it('returns equal tags for equal versions and different tags for different versions', () => {
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
    // An asterisk is valid only alone (RFC 9110 section 13.1.2); in quotes it is a tag.
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
    // Commas and spaces inside a tag are content, not separators.
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
  ])('for If-None-Match %p returns %p', (ifNoneMatch, matches) => {
    expect(matchesEtag(ifNoneMatch, etag)).toBe(matches);
  });

  it('takes linear time for a header full of quotes', () => {
    const start = performance.now();
    expect(matchesEtag('"'.repeat(8_001) + 'W/'.repeat(4_000), etag)).toBe(false);
    expect(performance.now() - start).toBeLessThan(200);
  });
});
