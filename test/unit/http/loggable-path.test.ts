import { loggablePath } from '../../../src/http/loggable-path.js';

const KEY = `pst_${'aB3'.repeat(14)}c`;
/** All that a key may consist of after its prefix. */
const CHARACTERS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const escapedByHex = (text: string): string =>
  text.replace(/./g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);

describe('loggablePath', () => {
  it.each([
    ['/nothing', '/nothing'],
    ['/nothing?secret=1', '/nothing'],
    ['http://host/nothing#part', '/nothing'],
    ['', undefined],
    ['/a\x1b[2J\x9bm\u00fc', '/a%1B[2J%C2%9Bm%C3%BC'],
    ['/a%0Ab%zz', '/a%0Ab%zz'],
    [`/${'a'.repeat(300)}`, `/${'a'.repeat(199)}`],
    ['/caf%C3%A9/a%2Fb%2520c/100%', '/caf%C3%A9/a%2Fb%2520c/100%'],
    ['/pst_report', '/pst_report'],
    [`/v1/${KEY}/x`, '/v1/pst_aB3aB3…'],
    [`/a%20b/${KEY}`, '/a%20b/pst_aB3aB3…'],
    [`/${'a'.repeat(180)}${KEY}`, `/${'a'.repeat(180)}pst_aB3aB3…`],
    [`/${KEY.replace('_', '%5F').replace('p', '%70').replace('B', '%42')}`, '/pst_aB3aB3…'],
    [`/pst_${escapedByHex(CHARACTERS)}`, '/pst_012345…'],
    [`/pst_${escapedByHex(CHARACTERS).toLowerCase()}`, '/pst_012345…'],
    [`/v1/${KEY.replace('_', '%255F').replace('p', '%252570')}`, '/v1/pst_aB3aB3…'],
    [`/x/%%32%35%37%30${KEY.slice(1)}`, '/x/pst_aB3aB3…'],
    [`/%${'25'.repeat(50)}70${KEY.slice(1)}`, '/pst_aB3aB3…'],
    [`/%${'25'.repeat(5_000)}70${KEY.slice(1)}`, `/%${'25'.repeat(99)}`],
    [`/${'%2F'.repeat(63)}${KEY}`, `/${'/'.repeat(63)}pst_aB3aB3`],
    [`/${'%%32%35'.repeat(3)}`, `/${'%%32%35'.repeat(3)}`],
    [`/${KEY.slice(0, 10)}%00${KEY.slice(10)}`, '/pst_aB3aB3…'],
    [`/${KEY.slice(0, 12)}%252F${KEY.slice(12)}`, '/pst_aB3aB3…'],
    [`/${KEY.slice(0, 7)}.${KEY.slice(7)}`, '/pst_aB3…'],
    [`/${KEY.toUpperCase()}`, '/PST_AB3AB3…'],
    ['http://user:password@[zz/v1/store/orders', undefined],
    ['http://user:password@host/nothing', '/nothing'],
  ])('%j: %j', (target, expected) => {
    expect(loggablePath(target)).toBe(expected);
  });
});
