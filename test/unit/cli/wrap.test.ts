import { wrap } from '../../../src/cli/output.js';

it('wrap breaks a line between words, not within quotes, and indents the further lines', () => {
  expect(wrap('ok     → Run "npm run build" as the owner: ALTER TABLE orders', 9, 24)).toBe(
    [
      'ok     → Run',
      '         "npm run build"',
      '         as the owner:',
      '         ALTER TABLE',
      '         orders',
    ].join('\n'),
  );
});

it('wrap leaves a line that fits, and a word that is longer than the terminal', () => {
  expect(wrap('12345 78', 2, 8)).toBe('12345 78');
  expect(wrap('12345 789 1234567890 2', 2, 8)).toBe('12345\n  789\n  1234567890\n  2');
});

it('wrap leaves a line in a pipe whole', () => {
  expect(wrap('word '.repeat(100))).toBe('word '.repeat(100));
});
