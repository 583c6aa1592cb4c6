import {
  FASTIFY_JSON,
  FASTIFY_STREAM,
  FASTIFY_STREAM_TEXT,
  FASTIFY_UNCOUNTED,
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
];
const LIMIT_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];

/** What a client is answered in turn; the seeded orders 1, 3 and 5 are pending, shipped and cancelled. */
const CASES = [
  ['cancels a pending order', ({ unlimited }) => [unlimited, 'DELETE', '/1'], 204],
  ['refuses to cancel it again', ({ unlimited }) => [unlimited, 'DELETE', '/1'], 409],
  ['refuses to cancel a shipped order', ({ unlimited }) => [unlimited, 'DELETE', '/3'], 409],
  ['refuses to cancel a cancelled order', ({ unlimited }) => [unlimited, 'DELETE', '/5'], 409],
  ['finds no order', ({ unlimited }) => [unlimited, 'DELETE', '/999999999'], 404],
  ['refuses what is no order id', ({ unlimited }) => [unlimited, 'DELETE', '/1x'], 400],
  ['refuses a request without a key', () => [undefined, 'DELETE', '/7'], 401],
  ['refuses an unknown key', ({ wrong }) => [wrong, 'GET', ''], 401],
  ['admits the one request of a key', ({ spent }) => [spent, 'DELETE', '/999999999'], 404],
  ['refuses a spent key', ({ spent }) => [spent, 'DELETE', '/7'], 429],
];

/**
 * Holds every contestant to the same answers, each on a database of its own: who answers something else does another job.
 * @throws {Error} that names the contestant and the answer
 */
export async function checkSameAnswers(bench) {
  const entries = [];
  for (const [number, contestant] of CHECKED.entries()) {
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
    complain('lists all orders', 'gives another list');
  }
  for (const [name, request, expected] of CASES) {
    const answer = await ask(server, ...request(keys));
    const body = await answer.text();
    if (answer.status !== expected) {
      complain(name, `is answered ${answer.status} ${body}, not ${expected}`);
    }
    const isUncounted = contestant === FASTIFY_UNCOUNTED && expected === 401;
    if (!isUncounted && LIMIT_HEADERS.some((header) => !answer.headers.has(header))) {
      complain(name, 'lacks limit headers');
    }
    if (expected === 429 && !answer.headers.has('retry-after')) {
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
