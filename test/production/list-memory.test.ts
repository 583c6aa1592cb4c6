import { readFileSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { seedOrders } from '../../src/orders/seed-orders.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const ORDERS = 1_000_000;
/** LIST_CACHE_MB by default. */
const CACHE_MIB = 64;
/** What streams, and clients of lists in memory, may take. Measured: 8 to 54 MiB and 2 MiB. */
const RISE_MAX_MIB = 100;
/** What each client of a list in memory may take. */
const CLIENT_MIB = 1;
const FIELD = Buffer.from('"id":');

const database = useTestDatabase();
let key: string;
let service: ServiceProcess;
let metricsPort: number;
let clients: RawClient[] = [];
/** What a process needs that holds no list. */
let restMiB: number;

beforeAll(async () => {
  const client = await database.db.connect();
  await seedOrders(client, ORDERS).finally(() => client.release());
  ({ key } = await insertKey(database.db));
  await start({ LIST_CACHE_MB: '0' });
  restMiB = resetPeak();
  await service.stop();
});
afterEach(async () => {
  clients.forEach((client) => {
    client.socket.destroy();
  });
  clients = [];
  await service.stop();
});

async function start(environment: Readonly<Record<string, string>> = {}): Promise<void> {
  metricsPort = await freePort();
  const own = { DATABASE_URL: database.url, METRICS_PORT: String(metricsPort), LIST_STALL_SECONDS: '300' };
  service = await ServiceProcess.start({ ...own, ...environment });
  await cancelOrder(service.baseUrl, '404404404', key);
  await listOrders(service.baseUrl, key, { 'If-None-Match': '*' });
}

/** Opens a list, which does not fit into the buffers of a connection, also compressed, and reads its first bytes. */
async function stall(encoding = 'gzip'): Promise<void> {
  const headers = [`Accept-Encoding: ${encoding}`];
  const client = await RawClient.open(service.port, requestText('GET', '/v1/store/orders', { key, headers }));
  await client.stall();
  expect(client.hasLength).toBe(true);
  clients.push(client);
}

async function listsThatEnded(end: string): Promise<number> {
  return (await ServiceMetrics.scrape(metricsPort)).sum('petstore_lists_total', `end="${end}"`);
}

/** The resident memory of the process (proc(5): `VmRSS` now, `VmHWM` its peak), in MiB. */
function memoryMiB(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  const [, kilobytes] = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
  return Number(kilobytes) / 1_024;
}

/** Resets the peak, which includes the start of the process (proc(5), `clear_refs`). */
function resetPeak(): number {
  writeFileSync(`/proc/${service.pid}/clear_refs`, '5');
  const before = memoryMiB('VmHWM');
  expect(before).toBeGreaterThan(20);
  return before;
}

/** A list that PostgreSQL cannot continue to send, because the service does not read its rows. */
const BLOCKED_LIST = `
  SELECT FROM pg_stat_activity
  WHERE datname = current_database() AND query LIKE 'COPY %' AND state = 'active' AND wait_event = 'ClientWrite'`;

/** An image that is being read. */
const BUILD = `
  SELECT FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'petstore-list' AND query LIKE 'COPY %' AND state = 'active'`;

/**
 * Reads the first bytes of the list, waits until PostgreSQL is blocked, and then reads the rest without storing it.
 * @returns the number of orders, and the start and the end of the list
 */
async function readList(headers: Record<string, string>): Promise<{ orders: number; start: string; end: string }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(`${service.baseUrl}/v1/store/orders`, { headers }, resolve).on('error', reject);
  });
  let [orders, start, end] = [0, '', Buffer.alloc(0)];
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (start.length < 20) {
      start += chunk.subarray(0, 20).toString();
      await waitFor(async () => (await database.db.query(BLOCKED_LIST)).rowCount === 1, 'PostgreSQL is blocked');
    }
    // The previous chunk may end with a part of the field name, never with all of it.
    const bytes = Buffer.concat([end.subarray(-(FIELD.length - 1)), chunk]);
    for (let at = bytes.indexOf(FIELD); at !== -1; at = bytes.indexOf(FIELD, at + 1)) {
      orders++;
    }
    end = Buffer.from(Buffer.concat([end, chunk]).subarray(-60));
  }
  expect(response.complete).toBe(true);
  return { orders, start, end: end.toString() };
}

it('a list of a million orders that memory does not hold is complete, and takes a bounded amount of memory', async () => {
  // So little memory that the list is read at the pace of the client.
  await start({ LIST_CACHE_MB: '4' });
  await waitFor(async () => (await database.db.query(BUILD)).rowCount === 0, 'no image is built');
  const before = resetPeak();
  const { orders, start: begin, end } = await readList({ Authorization: `Bearer ${key}` });
  expect(memoryMiB('VmHWM') - before).toBeLessThanOrEqual(RISE_MAX_MIB);
  expect(orders).toBe(ORDERS);
  expect(begin).toMatch(/^\[\{"id":1,"petId":/);
  expect(end).toMatch(/,"complete":(?:true|false)\}\]$/);
});

it.each([
  [100, 'gzip'],
  [8, 'identity'],
])(
  '%i clients that do not read a list from memory as %s take no database connection, and a bounded amount of memory',
  async (count, encoding) => {
    await start();
    await stall(encoding);
    const before = resetPeak();
    while (clients.length < count) {
      await stall(encoding);
    }
    expect(memoryMiB('VmHWM') - before).toBeLessThanOrEqual(RISE_MAX_MIB);
    const metrics = await ServiceMetrics.scrape(metricsPort);
    expect(metrics.sum('petstore_lists_running')).toBe(count);
    for (const pool of ['list', 'image']) {
      expect(metrics.sum('petstore_pool_connections', `pool="${pool}",state="used"`)).toBe(0);
    }
    expect(clients.flatMap(({ responses }) => responses)).toEqual([]);
  },
);

it('clients that do not read lists of ever new versions take three times LIST_CACHE_MB', async () => {
  await start();
  resetPeak();
  await waitFor(
    async () => {
      await stall();
      await database.db.query('SELECT renew_order_list_versions()');
      return (await listsThatEnded('cut')) >= 2;
    },
    'the oldest lists are cut',
    { withinMs: 120_000 },
  );
  expect(memoryMiB('VmHWM') - restMiB).toBeLessThanOrEqual(3 * CACHE_MIB + CLIENT_MIB * clients.length);
});
