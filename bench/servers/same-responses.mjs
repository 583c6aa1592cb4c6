import { Server } from './server.mjs';

const LIMIT_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];

/** Requests in this order, with their statuses. The seeded orders 1, 3 and 5 are pending, shipped and cancelled. */
const CASES = [
  ['unlimited', 'DELETE', '/1', 204],
  ['unlimited', 'DELETE', '/1', 409],
  ['unlimited', 'DELETE', '/3', 409],
  ['unlimited', 'DELETE', '/5', 409],
  ['unlimited', 'DELETE', '/999999999', 404],
  ['unlimited', 'DELETE', '/1x', 400],
  [undefined, 'DELETE', '/7', 401],
  ['unknown', 'GET', '', 401],
  ['limited', 'DELETE', '/999999999', 404],
  ['limited', 'DELETE', '/7', 429],
];

/** @throws {Error} unless every contestant sends the same responses, each on a database of its own */
export async function checkSameResponses(bench, contestants) {
  for (const [number, contestant] of contestants.entries()) {
    const database = await bench.forCheck(number);
    await Server.withAll([contestant], bench, database, (servers) =>
      check(contestant, servers.get(contestant), database, bench.keys),
    );
    await bench.redis.clear();
  }
}

async function check({ name, compresses = false }, server, database, keys) {
  const expect = (isAsExpected, problem) => {
    if (!isAsExpected) {
      throw new Error(`${name}: ${problem}`);
    }
  };
  // With `Accept-Encoding`, decompressed.
  const list = await server.fetch(keys.unlimited);
  expect((await list.text()) === (await database.listText()), 'the list is another one');
  expect((list.headers.get('content-encoding') === 'gzip') === compresses, 'the list is compressed or not');
  for (const [key, method, path, status] of CASES) {
    const what = `${method} ${path} with the key ${key}`;
    const response = await server.fetch(keys[key], method, path);
    const body = await response.text();
    expect(response.status === status, `${what} responds with ${response.status} ${body}`);
    expect(status === 204 ? body === '' : JSON.parse(body).status === status, `${what} has the body ${body}`);
    expect(
      LIMIT_HEADERS.every((header) => response.headers.has(header)),
      `${what} lacks limit headers`,
    );
    expect(status !== 429 || response.headers.has('retry-after'), `${what} lacks Retry-After`);
  }
}
