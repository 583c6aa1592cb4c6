import { requestIdFrom } from '../../../src/http/request.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('requestIdFrom', () => {
  it.each(['a', 'A-Z.a_z-09', '4bf92f3577b34da6a3ce929d0e0e4736', 'x'.repeat(64)])(
    'returns the well-formed id of the client: %s',
    (id) => {
      expect(requestIdFrom(id)).toBe(id);
    },
  );

  it.each([undefined, '', 'x'.repeat(65), 'a b', 'a,b', 'a\nb', 'a\n', ' a', 'ä', '<a>'])(
    'returns a new id for %j',
    (id) => {
      expect(requestIdFrom(id)).toMatch(UUID);
    },
  );

  it('returns a new id for two ids, and a different one each time', () => {
    expect(requestIdFrom(['a', 'a'])).toMatch(UUID);
    expect(requestIdFrom(undefined)).not.toBe(requestIdFrom(undefined));
  });
});
