import { details, table } from '../../src/cli/output.js';

it('table aligns columns, numbers to the right', () => {
  const rows = [
    ['a', '1,000', 'Partner Inc.'],
    ['bb', '7', 'B'],
  ];
  expect(table(['ID', 'COUNT', 'NAME'], rows)).toBe('ID  COUNT  NAME\na   1,000  Partner Inc.\nbb      7  B');
});

it('no value looks like another one by a line break', () => {
  expect(details({ note: 'x\nstatus             cancelled' }).split('\n')).toHaveLength(1);
  expect(table(['ID', 'NAME'], [['a', 'x\nb   y']]).split('\n')).toHaveLength(2);
});
