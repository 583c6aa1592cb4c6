import { SubjectCache } from '../../../src/rate-limit/subject-cache.js';

describe('SubjectCache', () => {
  it.each(['key:a', 'address:203.0.113.7'])('stores, replaces and deletes the value of %s', (subject) => {
    const memory = new SubjectCache<{ what: string }>();
    memory.set('key:other', { what: 'of another key' });
    memory.set('address:other', { what: 'of another address' });
    expect(memory.get(subject)).toBeUndefined();
    memory.set(subject, { what: 'first' });
    memory.set(subject, { what: 'then' });
    expect(memory.get(subject)).toEqual({ what: 'then' });
    memory.delete(subject);
    expect(memory.get(subject)).toBeUndefined();
    expect([memory.get('key:other'), memory.get('address:other')]).toEqual([
      { what: 'of another key' },
      { what: 'of another address' },
    ]);
  });
});
