import {
  available,
  FASTIFY_JSON,
  FASTIFY_STREAM,
  FASTIFY_STREAM_TEXT,
  FASTIFY_UNCOUNTED,
  GO_PGX,
  NEST_PG,
  NEST_PRISMA,
  NEST_PRISMA_CACHED_KEY,
  OWN,
  withContestants,
} from './contestants.mjs';

const CHECKED = [
  OWN,
  FASTIFY_STREAM,
  FASTIFY_STREAM_TEXT,
  FASTIFY_JSON,
  FASTIFY_UNCOUNTED,
  NEST_PRISMA,
  NEST_PRISMA_CACHED_KEY,
  NEST_PG,
  GO_PGX,
];
const LIMIT_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];

/** Requests in this order, with their statuses. The seeded orders 1, 3 and 5 are pending, shipped and cancelled. */
const CASES = [
  ['cancels a pending order', ({ unlimited }) => [unlimited, 'DELETE', '/1'], 204],
  ['rejects a second cancel', ({ unlimited }) => [unlimited, 'DELETE', '/1'], 409],
  ['rejects the cancel of a shipped order', ({ unlimited }) => [unlimited, 'DELETE', '/3'], 409],
  ['rejects the cancel of a cancelled order', ({ unlimited }) => [unlimited, 'DELETE', '/5'], 409],
  ['rejects the cancel of a missing order', ({ unlimited }) => [unlimited, 'DELETE', '/999999999'], 404],
  ['rejects an invalid order id', ({ unlimited }) => [unlimited, 'DELETE', '/1x'], 400],
  ['rejects a request without a key', () => [undefined, 'DELETE', '/7'], 401],
  ['rejects an unknown key', ({ unknown }) => [unknown, 'GET', ''], 401],
  ['admits the only request of the limited key', ({ limited }) => [limited, 'DELETE', '/999999999'], 404],
  ['rejects the limited key afterwards', ({ limited }) => [limited, 'DELETE', '/7'], 429],
];

/**
 * Checks that every contestant sends the same responses, each on its own database.
 * @throws {Error} that names the contestant and its response
 */
export async function checkSameResponses(bench) {
  const entries = [];
  for (const [number, contestant] of available(bench, CHECKED).entries()) {
    entries.push([contestant, await bench.databases.forCheck(number)]);
  }
  await withContestants(bench, entries, async (servers) => {
    for (const [contestant, database] of entries) {
      await check(contestant, servers.get(contestant), database, bench.keys);
      await bench.redis.clear();
    }
  });
}

async function check(contestant, server, database, keys) {
  const complain = (name, problem) => {
    throw new Error(`${contestant.name} ${JSON.stringify(contestant.environment)}: "${name}" ${problem}`);
  };
  const list = await ask(server, keys.unlimited, 'GET', '');
  if (list.status !== 200 || (await list.text()) !== (await database.listText())) {
    complain('lists all orders', 'returns a different list');
  }
  for (const [name, request, expected] of CASES) {
    const response = await ask(server, ...request(keys));
    const body = await response.text();
    if (response.status !== expected) {
      complain(name, `returns ${response.status} ${body} instead of ${expected}`);
    }
    const isUncounted = contestant === FASTIFY_UNCOUNTED && expected === 401;
    if (!isUncounted && LIMIT_HEADERS.some((header) => !response.headers.has(header))) {
      complain(name, 'lacks limit headers');
    }
    if (expected === 429 && !response.headers.has('retry-after')) {
      complain(name, 'lacks Retry-After');
    }
    if (expected === 204 ? body !== '' : JSON.parse(body).status !== expected) {
      complain(name, `has the body ${body}`);
    }
  }
}

function ask(server, key, method, path) {
  return fetch(`http://127.0.0.1:${server.port}/v1/store/orders${path}`, {
    method,
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
  });
}
