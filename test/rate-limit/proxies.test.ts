import { call } from '../helpers/api.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { responseTo } from '../helpers/wire.js';

const database = useTestDatabase();
let service: TestService;
afterEach(() => service.stop());

/** How many requests have been counted against the address of a request with this header, including this one. */
async function usedBy(forwardedFor?: string): Promise<number> {
  const headers: Record<string, string> = forwardedFor === undefined ? {} : { 'X-Forwarded-For': forwardedFor };
  const response = await call(service.baseUrl, 'GET', '/store/orders', undefined, headers);
  expect(response.status).toBe(401);
  return 60 - Number(response.headers.get('x-ratelimit-remaining'));
}

// The unit test of `ClientAddress` covers the other forms of the header.
test.each<[string, string, (string | undefined)[], number[]]>([
  [
    'without TRUST_PROXY, all requests of a connection count as one client',
    '',
    ['203.0.113.1', '203.0.113.2', '203.0.113.3, 203.0.113.4', undefined],
    [1, 2, 3, 4],
  ],
  [
    'with one proxy, each client counts by the address that the proxy saw, whatever it forges',
    '1',
    ['203.0.113.1', '203.0.113.2', '198.51.100.1, 203.0.113.1', 'nonsense,   203.0.113.1'],
    [1, 1, 2, 3],
  ],
  [
    'with one proxy, the addresses of an IPv6 /64 count as one client',
    '1',
    ['2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1', '[2001:db8:0:1::3]:1234'],
    [1, 2, 1, 3],
  ],
  [
    'with trusted networks, the last address outside them counts',
    '127.0.0.0/8, 10.0.0.0/8,fd00::/8',
    ['203.0.113.1', '198.51.100.1, 203.0.113.1, fd00::1, 10.1.2.3', '203.0.113.1, 198.51.100.1, 10.1.2.3'],
    [1, 2, 1],
  ],
])('%s', async (_what, trustProxy, requests, expected) => {
  service = await startTestService({ database, environment: { TRUST_PROXY: trustProxy } });
  const used: number[] = [];
  for (const forwardedFor of requests) {
    used.push(await usedBy(forwardedFor));
  }
  expect(used).toEqual(expected);
});

it('repeated headers are read as one list', async () => {
  service = await startTestService({ database, environment: { TRUST_PROXY: '1' } });
  await usedBy('203.0.113.1');
  const headers = ['X-Forwarded-For: 198.51.100.1', 'X-Forwarded-For: 203.0.113.1'];
  const response = await responseTo(service.port, 'GET', '/v1/store/orders', { headers });
  expect(response.headers.get('x-ratelimit-remaining')).toEqual(['58']);
});
