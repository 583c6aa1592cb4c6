import fc from 'fast-check';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { RawClient } from '../helpers/raw-client.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

/** `FUZZ_ATTACKS` sets a larger number for longer runs. */
const ATTACKS = Number(process.env.FUZZ_ATTACKS ?? '400');
const AT_ONCE = 40;
/** Without a response for so long, which a busy machine does not take, the valid request is part of a body. Milliseconds. */
const IDLE_MS = 5_000;
jest.setTimeout(180_000 + ATTACKS * 200);

// In a process of its own, because an unhandled error would end it.
const context = useServiceProcess({ CORS_ORIGINS: 'https://app.example.com', RATE_LIMIT_BAN_THRESHOLD: '0' });

const METHODS = ['GET', 'DELETE', 'POST', 'PUT', 'OPTIONS', 'TRACE', 'PROPFIND', 'CONNECT', 'get', 'GE', ''];
const TARGETS = [
  ...['/v1/store/orders', '/v1/store/orders/1', '/v1/store/orders/-9223372036854775809', '/v1/store/orders/%31'],
  ...['/v1//store/orders', '/v1/./store/../store/orders', '/v1/store/orders?limit=1&__proto__[x]=1', '/v1'],
  ...['/', '*', 'http://localhost/v1/store/orders/1', '/health/live', '/docs/../v1/store/orders'],
];
/** KEY is replaced by a valid key. */
const HEADERS = [
  'Authorization: Bearer KEY, Bearer KEY',
  `Authorization: Bearer ${'a'.repeat(5_000)}`,
  `If-None-Match: ${'"a",'.repeat(500)}`,
  'Accept-Encoding: gzip;q=0, identity;q=0, *;q=0',
  'Range: bytes=0-0,-1',
  'Expect: 100-continue',
  'Connection: upgrade, keep-alive, \x01',
  'Upgrade: h2c',
  'Content-Length: 5',
  'Content-Length: 99999999999999999999',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: chunked, identity',
  'X-Forwarded-For: 1.2.3.4, unknown, ::ffff:1.2.3.4, 999.1.1.1',
  'Host: elsewhere:99999',
];
const BODIES = ['hello', '0\r\n\r\n', '5\r\nhello\r\n0\r\n\r\n', '5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n'];
/** Bytes that have caused bugs in HTTP software: separators, control characters, unusual line ends. */
const FRAGMENTS = [
  ...Array.from('\r\n\0\t :,;\\#?\x7f\x85\xa0\xff\x0b"\'{<'),
  ...['\r\n', '\r\n\r\n', '%', '%00', '%0d%0a', '%ff', '../', '//', '${7*7}', 'a'.repeat(3_000)],
];

const request = fc
  .record({
    method: fc.oneof({ weight: 9, arbitrary: fc.constantFrom('GET', 'DELETE') }, fc.constantFrom(...METHODS)),
    target: fc.constantFrom(...TARGETS),
    headers: fc.array(
      fc.oneof(
        { weight: 3, arbitrary: fc.constant('Authorization: Bearer KEY') },
        { weight: 7, arbitrary: fc.constantFrom(...HEADERS) },
      ),
      { maxLength: 3 },
    ),
    body: fc.oneof(fc.constant(''), fc.constantFrom(...BODIES)),
  })
  .map(({ method, target, headers, body }) => requestText(method, target, { headers, body }));

/** A place, how many bytes are removed there, and what is inserted. */
const mutation = fc.tuple(
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.oneof(fc.constant(0), fc.nat({ max: 8 }), fc.constant(Infinity)),
  fc.constantFrom('', ...FRAGMENTS),
);

/** One to three requests, changed in up to four places. */
const attack = fc
  .tuple(fc.array(request, { minLength: 1, maxLength: 3 }), fc.array(mutation, { maxLength: 4 }))
  .map(([requests, mutations]) =>
    mutations.reduce((text, [place, removed, inserted]) => {
      const at = Math.floor(place * text.length);
      return text.slice(0, at) + inserted + text.slice(at + removed);
    }, requests.join('')),
  );

/** On Linux every address of 127/8 is local and has its own quota; elsewhere all attacks share one. */
let attacks = 0;
function someAddress(): string | undefined {
  attacks++;
  return process.platform === 'linux' ? `127.1.${attacks % 200}.${(attacks % 250) + 1}` : undefined;
}

const LAST_ID = 'last-request';
const LAST = requestText('GET', '/nowhere', { headers: [`X-Request-Id: ${LAST_ID}`] });

/** Expects responses of the service and nothing between them, to the last request or until the connection is closed. */
async function expectResponses(text: string): Promise<void> {
  const sent = text.replaceAll('KEY', context.key) + LAST;
  const client = await RawClient.open(context.service.port, sent, someAddress());
  const hasLast = (): boolean => client.responses.at(-1)?.headers.get('x-request-id')?.[0] === LAST_ID;
  const idle = setTimeout(() => client.socket.end(), IDLE_MS);
  await waitFor(() => client.closed || hasLast(), 'there is a response, or the connection is closed');
  clearTimeout(idle);
  client.socket.destroy();
  const { received } = client;
  // Nothing when malformed input follows a request whose response is pending.
  expect(received).toMatch(/^(?:HTTP\/1\.1 |$)/);
  expect(client.responses).toHaveLength(received.match(/HTTP\/1\.1 \d{3} /g)?.length ?? 0);
  for (const response of client.responses) {
    expect([200, 204, 302, 304, 400, 401, 404, 405, 408, 409, 429, 431]).toContain(response.status);
    if (response.status >= 400) {
      expectErrorResponse(response, response.status, (JSON.parse(response.body) as { code: string }).code);
    }
  }
}

/** Of the service, without the connections of its pools, which keep them for a while. */
async function openFiles(): Promise<number> {
  const metrics = await context.metrics();
  return metrics.sum('process_open_fds') - metrics.sum('petstore_pool_connections');
}

let openFilesBefore: number;
beforeAll(async () => {
  // The connection of this request stays open.
  await fetch(`${context.service.baseUrl}/health/ready`);
  openFilesBefore = await openFiles();
});

async function expectHealthy(): Promise<void> {
  // Some are opened on demand, and stay.
  await waitFor(async () => (await openFiles()) < openFilesBefore + 10, 'all connections are closed');
  const areIdle = async (): Promise<boolean> => {
    const metrics = await context.metrics();
    const states = ['used', 'waiting'].map((state) => metrics.sum('petstore_pool_connections', `state="${state}"`));
    return states.join() === '0,0';
  };
  await waitFor(areIdle, 'the pools are idle');
  expect((await fetch(`${context.service.baseUrl}/health/ready`)).status).toBe(200);
  expect(context.service.output).not.toMatch(/"level":(?:50|60)|uncaught|unhandled/i);
}

it('random and malformed input gets error responses or a closed connection, and leaves no connection and no error in the log', async () => {
  const together = fc.array(attack, { minLength: AT_ONCE, maxLength: AT_ONCE });
  const property = fc.asyncProperty(together, async (texts) => {
    const results = await Promise.allSettled(texts.map(expectResponses));
    const failed = results.findIndex(({ status }) => status === 'rejected');
    expect([texts[failed], results[failed]]).toEqual([undefined, undefined]);
  });
  const seed = process.env.SEED === undefined ? {} : { seed: Number(process.env.SEED) };
  await fc.assert(property, { numRuns: Math.ceil(ATTACKS / AT_ONCE), endOnFailure: true, ...seed });
  await expectHealthy();
});

it('clients that reset their connection at any moment leave the service ready and no error in the log', async () => {
  const { port, baseUrl } = context.service;
  const parts = { key: context.key };
  const texts = [
    'CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n',
    requestText('GET', '/v1/nowhere', { headers: ['Connection: Upgrade', 'Upgrade: h2c'] }),
    requestText('DELETE', '/v1/store/orders/1', parts),
    requestText('GET', '/v1/store/orders', parts).repeat(50),
    requestText('POST', '/v1/store/orders', { headers: ['Content-Length: 99'], body: 'a' }),
  ];
  for (let round = 0; round < 20; round++) {
    for (const text of texts) {
      const { socket } = await RawClient.open(port, text);
      if (round % 2 === 0) {
        // As much later as a request to another connection takes: some of these get no response.
        await fetch(`${baseUrl}/health/live`);
      }
      socket.resetAndDestroy();
    }
  }
  await expectHealthy();
});
