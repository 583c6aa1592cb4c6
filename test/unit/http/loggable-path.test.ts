import { loggablePath } from '../../../src/http/loggable-path.js';

const KEY = `pst_${'aB3'.repeat(14)}c`;

describe('loggablePath', () => {
  it.each([
    ['/nothing', '/nothing'],
    ['/nothing?secret=1', '/nothing'],
    ['http://host/nothing#part', '/nothing'],
    ['', undefined],
    ['/a\x1b[2J\x9bm\u00fc', '/a%1B[2J%C2%9Bm%C3%BC'],
    ['/a%0Ab%zz', '/a…'],
    [`/${'a'.repeat(300)}`, `/${'a'.repeat(199)}`],
    ['/100%', '/100…'],
    ['/%', '/…'],
    ['/pst_report', '/pst_report'],
    [`/v1/${KEY}/x`, '/v1/pst_aB3aB3…'],
    [`/a%20b/${KEY}`, '/a…'],
    [`/${'a'.repeat(180)}${KEY}`, `/${'a'.repeat(180)}pst_aB3aB3…`],
    [`/x/${KEY.replace('_', '%5F')}`, '/x/pst…'],
    [`/x/${KEY.replace('p', '%252570')}`, '/x/…'],
    [`/x/%%32%35%37%30${KEY.slice(1)}`, '/x/…'],
    [`/${KEY.slice(0, 10)}%00${KEY.slice(10)}`, '/pst_aB3aB3…'],
    [`/${KEY.slice(0, 7)}%61${KEY.slice(7)}`, '/pst_aB3…'],
    [`/${KEY.slice(0, 12)}%252F${KEY.slice(12)}`, '/pst_aB3aB3…'],
    [`/${KEY.slice(0, 7)}.${KEY.slice(7)}`, '/pst_aB3…'],
    [`/${KEY.toUpperCase()}`, '/PST_AB3AB3…'],
    [`/x/${KEY.replace('_', String.raw`\u005f`)}`, '/x/pst…'],
    ['http://user:password@[zz/v1/store/orders', undefined],
    ['http://user:password@host/nothing', '/nothing'],
  ])('%j: %j', (target, expected) => {
    expect(loggablePath(target)).toBe(expected);
  });
});
