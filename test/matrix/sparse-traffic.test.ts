import http from 'node:http';
import https from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { insertKey } from '../helpers/builders.js';
import { describeWith } from '../helpers/describe-with.js';
import { SeededRandom } from '../helpers/seeded-random.js';
import { PROXY_HOST, ProxyProcess, SHIPPED_PROXIES, type ShippedProxy } from '../helpers/shipped-proxies.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const MINUTES = Number(process.env.SPARSE_MINUTES ?? 10);
const CLIENTS_PER_PROXY = 12;
const GAP_MIN_MS = 1_000;
const GAP_MAX_MS = 90_000;
/** The clients close their connections before the proxies do, the first of which does so after 60 s. */
const CLIENT_IDLE_MS = 45_000;

jest.setTimeout((MINUTES + 3) * 60_000);

interface Result {
  readonly at: string;
  readonly proxy: string;
  readonly method: string;
  readonly path: string;
  readonly outcome: number | string;
}

let database: TestDatabase;
let services: ServiceProcess[];
let proxies: { readonly kind: ShippedProxy; readonly process: ProxyProcess }[];
let key: string;
let nextOrder = 1;
describeWith(
  'nginx',
  'haproxy',
  'caddy',
)('the proxies with the shipped configurations', () => {
  beforeAll(async () => {
    database = await createTestDatabase();
    await database.db.query(
      'INSERT INTO orders (id, pet_id, quantity) SELECT n, 1, 1 FROM generate_series(1, 50000) AS n',
    );
    ({ key } = await insertKey(database.db, { requests_per_minute: 1_000_000, requests_per_day: 10_000_000 }));
    services = await Promise.all(
      [1, 2, 3].map(() => ServiceProcess.start({ DATABASE_URL: database.url, TRUST_PROXY: '1' })),
    );
    proxies = await Promise.all(
      SHIPPED_PROXIES.map(async (kind) => ({
        kind,
        process: await ProxyProcess.start(
          kind,
          services.map(({ port }) => port),
        ),
      })),
    );
  });
  afterAll(async () => {
    await Promise.all(proxies.map(({ process }) => process.stop()));
    await Promise.all(services.map((service) => service.stop()));
    await database.drop();
  });

  it(`lose no request and repeat no cancel in ${MINUTES} minutes of sparse traffic`, async () => {
    const random = new SeededRandom(Number(process.env.SEED ?? Date.now() % 2 ** 32));
    const end = performance.now() + MINUTES * 60_000;
    const results: Result[] = [];
    await Promise.all(
      proxies.flatMap((proxy) =>
        Array.from({ length: CLIENTS_PER_PROXY }, () => runClient(proxy, random.fork(), end, results)),
      ),
    );
    const failures = results.filter(({ outcome }) => ![200, 204, 304].includes(Number(outcome)));
    process.stderr.write(`${results.length} requests, ${failures.length} failures\n`);
    if (failures.length > 0) {
      process.stderr.write(proxies.map(({ kind, process: { log } }) => `== ${kind.name}\n${log}\n`).join(''));
      process.stderr.write(services.map(({ port, output }) => `== service on ${port}\n${output}\n`).join(''));
    }
    expect(failures).toEqual([]);
  });
});

async function runClient(
  { kind, process: { port } }: (typeof proxies)[number],
  random: SeededRandom,
  end: number,
  results: Result[],
): Promise<void> {
  const { Agent, request } = kind.tls ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1, timeout: CLIENT_IDLE_MS });
  let etag = '';
  const send = (method: string, path: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const headers = { host: PROXY_HOST, authorization: `Bearer ${key}`, 'if-none-match': etag };
      request({ host: '127.0.0.1', port, path, method, agent, headers, rejectUnauthorized: false }, (res) => {
        etag = res.headers.etag ?? etag;
        res.resume();
        res.once('end', () => resolve(res.statusCode ?? 0));
        res.once('error', reject);
      })
        .once('error', reject)
        .end();
    });
  await waitFor(async () => (await send('GET', '/health/ready').catch(() => 0)) === 200, `${kind.name} responds`);
  for (;;) {
    // Many short gaps and some long ones, as far as the end.
    const gap = GAP_MIN_MS + random.next() ** 2 * (GAP_MAX_MS - GAP_MIN_MS);
    if (performance.now() + gap > end) {
      break;
    }
    await delay(gap);
    const isCancel = random.chance(0.5);
    const method = isCancel ? 'DELETE' : 'GET';
    const path = `/v1/store/orders${isCancel ? `/${nextOrder++}` : ''}`;
    const at = new Date().toISOString();
    const outcome = await send(method, path).catch(String);
    results.push({ at, proxy: kind.name, method, path, outcome });
  }
  agent.destroy();
}
