import { committedDocument, Contract, type ReceivedResponse } from '../helpers/contract.js';

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

const contract = new Contract(committedDocument());

// That it accepts documented responses is shown by every other test.
describe('Contract.violationsOf, which checks every response of the test run,', () => {
  it.each<[string, ReceivedResponse, string]>([
    ['a missing header', listResponse({ RateLimit: '' }), 'header RateLimit is not present'],
    ['a header sent twice', listResponse({ ETag: null }), 'header ETag is not present exactly once'],
    ['a header in another format', listResponse({ 'RateLimit-Policy': 'q=60' }), 'header RateLimit-Policy'],
    ['an id beyond int64', bodyOf('[{"id":9223372036854775808}]'), 'body'],
    ['a null ship date', bodyOf('[{"shipDate":null}]'), 'body'],
    ['an undocumented field', bodyOf('[{"status":"pending"}]'), 'body'],
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
});
