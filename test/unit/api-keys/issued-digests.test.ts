import { hash } from 'node:crypto';
import { HELD_BYTES, IssuedDigests } from '../../../src/api-keys/issued-digests.js';

const digestOf = (name: string): string => hash('sha256', name, 'hex');

it('IssuedDigests holds every digest that was added, whatever their number and order, and no other', () => {
  const issued = new IssuedDigests();
  const digests = Array.from({ length: 100_000 }, (_, index) => digestOf(`issued ${index}`)).sort();
  // Zero marks an empty slot.
  digests.unshift('0'.repeat(64));
  digests.push('f'.repeat(64));
  const announced = digests.splice(50_000);
  issued.reserve(digests.length);
  for (const digest of digests) {
    issued.addHeld(Number.parseInt(digest.slice(0, 2 * HELD_BYTES), 16));
  }
  for (const digest of announced) {
    issued.add(digest);
    issued.add(digest);
  }
  const missing = [...digests, ...announced].filter((digest) => !issued.has(digest));
  expect(missing).toEqual([]);
  const invented = Array.from({ length: 100_000 }, (_, index) => digestOf(`invented ${index}`));
  expect(invented.filter((digest) => issued.has(digest))).toEqual([]);
});

it('IssuedDigests ignores what is no digest, of which each would take a place of its own', () => {
  const issued = new IssuedDigests();
  const addHeld = jest.spyOn(issued, 'addHeld');
  issued.add('announced by somebody else');
  expect(addHeld).not.toHaveBeenCalled();
});
