import { details, shownId, table } from '../../../src/cli/output.js';

it('table aligns columns, and a wide name shifts none', () => {
  const rows = [
    ['a', '1,000', '株式会社'],
    ['bb', '7', '🦜 Ltd.'],
  ];
  expect(table(['ID', 'COUNT', 'NAME'], rows)).toBe('ID  COUNT  NAME\na   1,000  株式会社\nbb      7  🦜 Ltd.');
});

it('shownId shortens an id on a terminal only', () => {
  const id = '11111111-1111-4111-8111-111111111111';
  expect([shownId(id, true), shownId(id, false)]).toEqual(['11111111', id]);
});

it.each([
  ['Partner', 'Partner'],
  ['Partners', 'Partners'],
  ['Partner Inc.', 'Partner…'],
  ['株式会社', '株式会社'],
  ['株式会社株', '株式会…'],
  ['🦜🦜🦜🦜🦜', '🦜🦜🦜…'],
])('table cuts a name to the width of the terminal, and nothing in a pipe: %s', (name, shown) => {
  const rows = [['a', '1,000', name]];
  expect(table(['ID', 'COUNT', 'NAME'], rows, 19)).toBe(`ID  COUNT  NAME\na   1,000  ${shown}`);
  expect(table(['ID', 'COUNT', 'NAME'], rows)).toContain(name);
});

it('no value looks like another one by a line break', () => {
  expect(details({ note: 'x\nstatus             cancelled' }).split('\n')).toHaveLength(1);
  expect(table(['ID', 'NAME'], [['a', 'x\nb   y']]).split('\n')).toHaveLength(2);
});
