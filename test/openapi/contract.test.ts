import { type ReceivedResponse, committedDocument, Contract, type OpenApiDocument } from '../helpers/contract.js';

const LIMITS: Record<string, string> = {
  'X-RateLimit-Limit': '60',
  'X-RateLimit-Remaining': '59',
  'X-RateLimit-Reset': '1795255260',
  'RateLimit-Policy': '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: '"minute";r=59;t=42, "day";r=999;t=51642',
};
const LIST = { method: 'GET', path: '/v1/store/orders' };
const CANCEL = { method: 'DELETE', path: '/v1/store/orders/1' };

/** A documented list of one order. */
function listResponse(
  overrides: { headers?: Record<string, string | null | undefined>; body?: string } = {},
): ReceivedResponse {
  const headers: Record<string, string | null | undefined> = {
    ...LIMITS,
    ETag: 'W/"abc"',
    'Content-Type': 'application/json',
    ...overrides.headers,
  };
  return { status: 200, header: (name) => headers[name], body: overrides.body ?? '[{"id":9223372036854775807}]' };
}

function errorResponse(status: number, code: string, stated = status): ReceivedResponse {
  const headers: Record<string, string> = { ...LIMITS, 'Content-Type': 'application/json' };
  return {
    status,
    header: (name) => headers[name],
    body: JSON.stringify({ code, message: 'An error.', status: stated }),
  };
}

/** The committed document with a change. */
function changed(change: (document: OpenApiDocument) => void): OpenApiDocument {
  const document = committedDocument();
  change(document);
  return document;
}

const contract = new Contract(committedDocument());

describe('Contract.violationsOf, which checks every response of the test run,', () => {
  it('returns nothing for documented responses', () => {
    expect(contract.violationsOf(listResponse(), LIST)).toEqual([]);
    expect(contract.violationsOf(listResponse())).toEqual([]);
    expect(contract.violationsOf(errorResponse(404, 'order_not_found'), CANCEL)).toEqual([]);
    expect(
      contract.violationsOf(errorResponse(404, 'route_not_found'), { method: 'GET', path: '/v1/nowhere' }),
    ).toEqual([]);
    expect(contract.violationsOf(errorResponse(405, 'method_not_allowed'), { ...LIST, method: 'POST' })).toEqual([]);
  });

  it.each<[string, ReceivedResponse, string]>([
    ['a missing header', listResponse({ headers: { RateLimit: undefined } }), 'header RateLimit is not present'],
    ['a header sent twice', listResponse({ headers: { ETag: null } }), 'header ETag is not present exactly once'],
    [
      'a header that is not a number',
      listResponse({ headers: { 'X-RateLimit-Limit': 'many' } }),
      'header X-RateLimit-Limit',
    ],
    [
      'a header that is out of range',
      listResponse({ headers: { 'X-RateLimit-Remaining': '-1' } }),
      'header X-RateLimit-Remaining',
    ],
    [
      'a header in another format',
      listResponse({ headers: { 'RateLimit-Policy': 'q=60' } }),
      'header RateLimit-Policy',
    ],
    ['another media type', listResponse({ headers: { 'Content-Type': 'text/html' } }), 'Content-Type text/html'],
    ['an id beyond int64', listResponse({ body: '[{"id":9223372036854775808}]' }), 'body'],
    ['an id that is a string', listResponse({ body: '[{"id":"1"}]' }), 'body'],
    ['an id with a fraction', listResponse({ body: '[{"id":1.0}]' }), 'body'],
    ['a quantity of 0', listResponse({ body: '[{"quantity":0}]' }), 'body'],
    ['a null ship date', listResponse({ body: '[{"shipDate":null}]' }), 'body'],
    ['a ship date in another time zone', listResponse({ body: '[{"shipDate":"2026-01-01T00:00:00.000+1"}]' }), 'body'],
    ['an undocumented field', listResponse({ body: '[{"status":"pending"}]' }), 'body'],
    ['a body that is not an array', listResponse({ body: '{}' }), 'body'],
    ['an undocumented status', errorResponse(418, 'teapot'), 'status 418 is not documented'],
    ['the error of another operation', errorResponse(404, 'order_not_found'), 'status 404 is not documented'],
    ['a code with the wrong status', errorResponse(400, 'order_not_found'), 'code order_not_found has no example'],
    ['a body that states another status', errorResponse(400, 'bad_request', 404), 'the body states status 404'],
  ])('reports %s', (_what, response, violation) => {
    expect(contract.violationsOf(response, LIST).join()).toContain(violation);
  });

  it('reports a body where none is documented, and a 401 that does not name the scheme', () => {
    expect(contract.violationsOf({ ...listResponse(), status: 204 }, CANCEL).join()).toContain('no body is documented');
    expect(contract.violationsOf(errorResponse(401, 'missing_api_key'), LIST).join()).toContain('WWW-Authenticate');
  });

  it('rejects a duplicate field', () => {
    expect(() => contract.violationsOf(listResponse({ body: '[{"id":1,"id":2}]' }), LIST)).toThrow('Duplicate key');
  });

  it('reports what a changed document does not allow', () => {
    const withoutConflict = changed(({ paths }) => delete paths['/store/orders/{orderId}']?.delete?.responses['409']);
    const conflict = errorResponse(409, 'order_already_shipped');
    expect(contract.violationsOf(conflict, CANCEL)).toEqual([]);
    expect(new Contract(withoutConflict).violationsOf(conflict, CANCEL)).toEqual(['status 409 is not documented']);

    const idIsText = changed(({ components }) => {
      components.schemas.Order = { type: 'object', properties: { id: { type: 'string' } } };
    });
    expect(new Contract(idIsText).violationsOf(listResponse(), LIST).join()).toContain('body');
  });
});
