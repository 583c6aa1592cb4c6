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

const responseWith = (status: number, headers: Record<string, string | null>, body: string): ReceivedResponse => ({
  status,
  header: (name) => headers[name],
  body,
});
/** A documented list of one order, with other headers; one of '' is missing. */
function listResponse(headers: Record<string, string | null>, body = '[{"id":9223372036854775807}]'): ReceivedResponse {
  const all = { ...LIMITS, ETag: 'W/"abc"', 'Content-Type': 'application/json', ...headers };
  return responseWith(200, Object.fromEntries(Object.entries(all).filter(([, value]) => value !== '')), body);
}
const bodyOf = (body: string): ReceivedResponse => listResponse({}, body);
const errorResponse = (status: number, code: string, stated = status): ReceivedResponse =>
  responseWith(
    status,
    { ...LIMITS, 'Content-Type': 'application/json' },
    JSON.stringify({ code, message: 'An error.', status: stated }),
  );

/** The committed document with a change. */
function changed(change: (document: OpenApiDocument) => void): OpenApiDocument {
  const document = committedDocument();
  change(document);
  return document;
}

const contract = new Contract(committedDocument());

describe('Contract.violationsOf, which checks every response of the test run,', () => {
  it('returns nothing for documented responses', () => {
    expect(contract.violationsOf(listResponse({}), LIST)).toEqual([]);
    expect(contract.violationsOf(listResponse({}))).toEqual([]);
    expect(contract.violationsOf(errorResponse(404, 'order_not_found'), CANCEL)).toEqual([]);
    expect(
      contract.violationsOf(errorResponse(404, 'route_not_found'), { method: 'GET', path: '/v1/nowhere' }),
    ).toEqual([]);
    expect(contract.violationsOf(errorResponse(405, 'method_not_allowed'), { ...LIST, method: 'POST' })).toEqual([]);
  });

  it.each<[string, ReceivedResponse, string]>([
    ['a missing header', listResponse({ RateLimit: '' }), 'header RateLimit is not present'],
    ['a header sent twice', listResponse({ ETag: null }), 'header ETag is not present exactly once'],
    ['a header that is not a number', listResponse({ 'X-RateLimit-Limit': 'many' }), 'header X-RateLimit-Limit'],
    ['a header out of range', listResponse({ 'X-RateLimit-Remaining': '-1' }), 'header X-RateLimit-Remaining'],
    ['a header in another format', listResponse({ 'RateLimit-Policy': 'q=60' }), 'header RateLimit-Policy'],
    ['another media type', listResponse({ 'Content-Type': 'text/html' }), 'Content-Type text/html'],
    ['an id beyond int64', bodyOf('[{"id":9223372036854775808}]'), 'body'],
    ['an id that is a string', bodyOf('[{"id":"1"}]'), 'body'],
    ['an id with a fraction', bodyOf('[{"id":1.0}]'), 'body'],
    ['a quantity of 0', bodyOf('[{"quantity":0}]'), 'body'],
    ['a null ship date', bodyOf('[{"shipDate":null}]'), 'body'],
    ['a ship date in another time zone', bodyOf('[{"shipDate":"2026-01-01T00:00:00.000+1"}]'), 'body'],
    ['an undocumented field', bodyOf('[{"status":"pending"}]'), 'body'],
    ['a body that is not an array', bodyOf('{}'), 'body'],
    ['an undocumented status', errorResponse(418, 'teapot'), 'status 418 is not documented'],
    ['the error of another operation', errorResponse(404, 'order_not_found'), 'status 404 is not documented'],
    ['a code with the wrong status', errorResponse(400, 'order_not_found'), 'code order_not_found has no example'],
    ['a body that states another status', errorResponse(400, 'bad_request', 404), 'the body states status 404'],
  ])('reports %s', (_what, response, violation) => {
    expect(contract.violationsOf(response, LIST).join()).toContain(violation);
  });

  it('reports a body where none is documented, and a 401 that does not name the scheme', () => {
    expect(contract.violationsOf({ ...listResponse({}), status: 204 }, CANCEL).join()).toContain(
      'no body is documented',
    );
    expect(contract.violationsOf(errorResponse(401, 'missing_api_key'), LIST).join()).toContain('WWW-Authenticate');
  });

  it('rejects a duplicate field', () => {
    expect(() => contract.violationsOf(bodyOf('[{"id":1,"id":2}]'), LIST)).toThrow('Duplicate key');
  });

  it('reports what a changed document does not allow', () => {
    const withoutConflict = changed(({ paths }) => delete paths['/store/orders/{orderId}']?.delete?.responses['409']);
    const conflict = errorResponse(409, 'order_already_shipped');
    expect(contract.violationsOf(conflict, CANCEL)).toEqual([]);
    expect(new Contract(withoutConflict).violationsOf(conflict, CANCEL)).toEqual(['status 409 is not documented']);

    const idIsText = changed(({ components }) => {
      components.schemas.Order = { type: 'object', properties: { id: { type: 'string' } } };
    });
    expect(new Contract(idIsText).violationsOf(listResponse({}), LIST).join()).toContain('body');
  });
});
