import { matchesEtag } from '../../../../src/orders/list/etag.js';

const etag = 'W/"abc-123_DEF"';

it.each<[string | undefined, boolean]>([
  [undefined, false],
  ['', false],
  ['*', true],
  [' * ', true],
  // An asterisk is valid only alone (RFC 9110 section 13.1.2); in quotes it is a tag.
  ['"*"', false],
  ['W/"abc-123_DEF"', true],
  // Weak comparison: only the opaque tags are compared (RFC 9110 section 8.8.3.2).
  ['"abc-123_DEF"', true],
  [' W/"abc-123_DEF" ', true],
  ['"x","y","abc-123_DEF"', true],
  ['"\u00e9","abc-123_DEF"', true],
  [',, "abc-123_DEF" ,', true],
  ['"x\t", "abc-123_DEF"', true],
  // Commas and spaces inside a tag are content, not separators.
  ['"x,y", "abc-123_DEF"', true],
  ['"", "abc-123_DEF"', true],
  ['"x"', false],
  ['abc-123_DEF', false],
  ['"abc-123_DEF', false],
  ['abc-123_DEF"', false],
  ['"abc-123_DEFG"', false],
  ['"ABC-123_DEF"', false],
  ['" abc-123_DEF"', false],
  ['"W/abc-123_DEF"', false],
  ['"x, abc-123_DEF"', false],
])('matchesEtag returns for If-None-Match %p: %p', (ifNoneMatch, matches) => {
  expect(matchesEtag(ifNoneMatch, etag)).toBe(matches);
});
