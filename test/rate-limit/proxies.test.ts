import { call } from '../helpers/api.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { exchange, requestText } from '../helpers/wire.js';

let database: TestDatabase;
let service: TestService;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
afterEach(() => service.stop());

async function start(trustProxy?: string): Promise<void> {
  service = await startTestService({
    database,
    environment: trustProxy === undefined ? {} : { TRUST_PROXY: trustProxy },
  });
}

/** How many requests have been counted against the address of a request with this header, including this one. */
async function usedBy(forwardedFor?: string): Promise<number> {
  const headers: Record<string, string> = forwardedFor === undefined ? {} : { 'X-Forwarded-For': forwardedFor };
  const response = await call(service.baseUrl, 'GET', '/store/orders', undefined, headers);
  expect(response.status).toBe(401);
  return 60 - Number(response.headers.get('x-ratelimit-remaining'));
}

describe('without TRUST_PROXY', () => {
  it('ignores X-Forwarded-For', async () => {
    await start();
    expect([
      await usedBy('203.0.113.1'),
      await usedBy('203.0.113.2'),
      await usedBy('203.0.113.3, 203.0.113.4'),
      await usedBy(),
    ]).toEqual([1, 2, 3, 4]);
  });
});

describe('with one trusted proxy', () => {
  beforeEach(() => start('1'));

  it('counts each client by the address that the proxy saw', async () => {
    expect([await usedBy('203.0.113.1'), await usedBy('203.0.113.2'), await usedBy('203.0.113.1')]).toEqual([1, 1, 2]);
  });

  it('ignores addresses that the client itself put into X-Forwarded-For', async () => {
    expect([
      await usedBy('203.0.113.1'),
      await usedBy('198.51.100.1, 203.0.113.1'),
      await usedBy('127.0.0.1, 198.51.100.2,203.0.113.1'),
      await usedBy('nonsense,   203.0.113.1'),
    ]).toEqual([1, 2, 3, 4]);
  });

  it('counts the addresses of an IPv6 /64 as one client, an IPv4-mapped address as the IPv4 address, and no port', async () => {
    expect([
      await usedBy('2001:db8:0:1::1'),
      await usedBy('2001:db8:0:1:ffff::2'),
      await usedBy('2001:db8:0:2::1'),
      await usedBy('203.0.113.9'),
      await usedBy('::ffff:203.0.113.9'),
      await usedBy('203.0.113.9:1234'),
      await usedBy('[2001:db8:0:1::3]:1234'),
    ]).toEqual([1, 2, 1, 1, 2, 3, 3]);
  });

  it.each([
    ['nothing', undefined],
    ['no address', 'nonsense'],
    ['an address with a number too large', '203.0.113.256'],
    ['markup', '<script>alert(1)</script>'],
    ['many commas', ',,,,,'],
  ])('uses the address of the connection for %s in X-Forwarded-For', async (_what, header) => {
    expect([await usedBy('127.0.0.1'), await usedBy(header)]).toEqual([1, 2]);
  });

  it('reads repeated headers as one list', async () => {
    await usedBy('203.0.113.1');
    const headers = ['X-Forwarded-For: 198.51.100.1', 'X-Forwarded-For: 203.0.113.1'];
    const { responses } = await exchange(service.port, requestText('GET', '/v1/store/orders', { headers }), {
      until: 1,
    });
    expect(responses[0]?.headers.get('x-ratelimit-remaining')).toEqual(['58']);
  });
});

describe('with two trusted proxies', () => {
  it('uses the address that the first proxy saw', async () => {
    await start('2');
    expect([
      await usedBy('203.0.113.1, 198.51.100.1'),
      await usedBy('203.0.113.1, 198.51.100.2'),
      await usedBy('192.0.2.1, 203.0.113.1, 198.51.100.3'),
      // Fewer entries than trusted proxies: the first entry.
      await usedBy('203.0.113.1'),
    ]).toEqual([1, 2, 3, 4]);
  });
});

describe('with trusted networks', () => {
  it('uses the last address outside the trusted networks', async () => {
    await start('127.0.0.0/8, 10.0.0.0/8,fd00::/8');
    expect([
      await usedBy('203.0.113.1'),
      await usedBy('203.0.113.1, 10.1.2.3'),
      await usedBy('198.51.100.1, 203.0.113.1, fd00::1, 10.1.2.3'),
      await usedBy('203.0.113.1, 198.51.100.1, 10.1.2.3'),
    ]).toEqual([1, 2, 3, 1]);
  });

  it('uses the address of the connection when the list is invalid', async () => {
    await start('127.0.0.0/8,10.0.0.0/8');
    expect([await usedBy(), await usedBy('203.0.113.1, nonsense, 10.1.2.3')]).toEqual([1, 2]);
  });

  it('ignores the header from a connection outside the trusted networks', async () => {
    await start('10.0.0.0/8');
    expect([await usedBy('203.0.113.1'), await usedBy('203.0.113.2')]).toEqual([1, 2]);
  });

  it('accepts a single trusted address', async () => {
    await start('127.0.0.1');
    expect([await usedBy('203.0.113.1'), await usedBy('203.0.113.2')]).toEqual([1, 1]);
  });
});
