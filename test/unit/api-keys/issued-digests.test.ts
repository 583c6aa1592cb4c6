import { hash } from 'node:crypto';
import { HELD_BYTES, IssuedDigests } from '../../../src/api-keys/issued-digests.js';

const digestsOf = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => hash('sha256', `${name} ${index}`, 'hex'));
const pagesOf = (digests: readonly string[]): Buffer =>
  Buffer.concat([...digests].sort().map((digest) => Buffer.from(digest, 'hex').subarray(0, HELD_BYTES)));

it('IssuedDigests holds every digest that was loaded or added, also before and during a load, and no other', async () => {
  const issued = new IssuedDigests();
  const loaded = [...digestsOf('loaded', 50_000), '0'.repeat(64), 'f'.repeat(64)];
  const [before, during] = [digestsOf('before', 1_000), digestsOf('during', 1_000)];
  const missing = (): string[] => [...loaded, ...before, ...during].filter((digest) => !issued.has(digest));
  await issued.load(() => Promise.resolve(pagesOf(loaded)));
  before.forEach((digest) => issued.add(digest));
  await expect(issued.load(() => Promise.reject(new Error('lost')))).rejects.toThrow('lost');
  await issued.load(() => {
    // Also one that is announced a second time, which the pages may lack.
    [...during, ...before.slice(0, 1)].forEach((digest) => issued.add(digest));
    expect(missing()).toEqual([]);
    return Promise.resolve(pagesOf([...loaded, ...before.slice(1)]));
  });
  expect(missing()).toEqual([]);
  expect(issued.announcedCount).toBe(1_001);
  expect(digestsOf('invented', 100_000).filter((digest) => issued.has(digest))).toEqual([]);
});

it('IssuedDigests ignores what is no digest, of which each would take a place of its own', () => {
  const issued = new IssuedDigests();
  issued.add('announced by another program');
  expect(issued.announcedCount).toBe(0);
});
