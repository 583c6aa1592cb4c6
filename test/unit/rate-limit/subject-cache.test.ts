import { SubjectCache } from '../../../src/rate-limit/subject-cache.js';

describe('SubjectCache', () => {
  it.each(['key:a', 'address:203.0.113.7'])('stores, replaces and deletes the value of %s', (subject) => {
    const cache = new SubjectCache<{ what: string }>();
    cache.set('key:other', { what: 'of another key' });
    cache.set('address:other', { what: 'of another address' });
    expect(cache.get(subject)).toBeUndefined();
    cache.set(subject, { what: 'first' });
    cache.set(subject, { what: 'second' });
    expect(cache.get(subject)).toEqual({ what: 'second' });
    cache.delete(subject);
    expect(cache.get(subject)).toBeUndefined();
    expect([cache.get('key:other'), cache.get('address:other')]).toEqual([
      { what: 'of another key' },
      { what: 'of another address' },
    ]);
  });
});
