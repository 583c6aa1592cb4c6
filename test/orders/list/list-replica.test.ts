import { Logger } from '@nestjs/common';
import { Metrics } from '../../../src/metrics/metrics.js';
import { cancelOrder, listOrders } from '../../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../../helpers/builders.js';
import { ReplicatedPostgres } from '../../helpers/replicated-postgres.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';
import { waitFor } from '../../helpers/wait-for.js';

let postgres: ReplicatedPostgres;
let service: TestService;
let key: string;
let logged: string[];

beforeAll(async () => {
  postgres = await ReplicatedPostgres.create();
  ({ key } = await insertKey(postgres.db));
}, 60_000);
afterAll(() => postgres.drop());
beforeEach(async () => {
  logged = [];
  for (const level of ['log', 'warn', 'error'] as const) {
    jest.spyOn(Logger.prototype, level).mockImplementation((...[message]: unknown[]) => {
      logged.push(...[String(message)].filter((line) => line.includes('replica')));
    });
  }
  await postgres.untilReplayed();
  service = await startTestService({ database: postgres, environment: { DATABASE_REPLICA_URL: postgres.replicaUrl } });
});
afterEach(async () => {
  await service.stop();
  jest.restoreAllMocks();
});

interface List {
  readonly etag: string;
  readonly ids: readonly string[];
}

async function list(): Promise<List> {
  const response = await listOrders(service.baseUrl, key);
  expect(response.status).toBe(200);
  const orders = (await response.json()) as { id: number }[];
  return { etag: response.headers.get('etag') ?? '', ids: orders.map(({ id }) => String(id)) };
}

async function metric(name: string): Promise<number | undefined> {
  const exported = await service.app.get(Metrics).registry.getSingleMetric(name)?.get();
  return exported?.values[0]?.value;
}

async function untilReplicaIs(state: 'available' | 'unavailable'): Promise<void> {
  const expected = state === 'available' ? 1 : 0;
  await waitFor(async () => (await metric('petstore_replica_available')) === expected, `the replica is ${state}`);
}

/** Inserts an order that the standby does not show, so that a list tells which server it was read from. */
async function insertOrderOnPrimaryOnly(): Promise<string> {
  await postgres.pauseReplay();
  return insertOrder(postgres.db);
}

describe('with a replica of the database', () => {
  it('reads lists and their versions from the replica, and everything else from the primary', async () => {
    const id = await insertOrder(postgres.db);
    await postgres.untilReplayed();
    const before = await list();
    const later = await insertOrderOnPrimaryOnly();
    expect(await list()).toEqual(before);
    const poll = await listOrders(service.baseUrl, key, { 'If-None-Match': before.etag });
    expect(poll.status).toBe(304);
    expect((await cancelOrder(service.baseUrl, later, key)).status).toBe(204);
    expect(await statusOf(postgres.db, later)).toBe('cancelled');
    expect(await statusOf(postgres.db, id)).toBe('pending');
    await waitFor(async () => ((await metric('petstore_replica_lag_seconds')) ?? 0) > 0, 'the lag is exported');
    await postgres.resumeReplay();
    await postgres.untilReplayed();
    expect((await list()).ids).toEqual([...before.ids, later]);
    await waitFor(async () => (await metric('petstore_replica_lag_seconds')) === 0, 'the lag is over');
    expect(logged).toEqual(['reading lists from the replica']);
  });

  it('reads lists from the primary while the replica is down, stays ready, and returns to it', async () => {
    const id = await insertOrderOnPrimaryOnly();
    expect((await list()).ids).not.toContain(id);
    postgres.killStandby();
    // Each of these lists succeeds; the backends of the standby end a moment later.
    await waitFor(async () => (await list()).ids.includes(id), 'a list is read from the primary');
    await untilReplicaIs('unavailable');
    expect((await list()).ids).toContain(id);
    expect((await fetch(`${service.baseUrl}/health/ready`)).status).toBe(200);
    await postgres.startStandby();
    await untilReplicaIs('available');
    const later = await insertOrderOnPrimaryOnly();
    expect((await list()).ids).not.toContain(later);
    await postgres.resumeReplay();
    expect(await metric('petstore_replica_fallbacks_total')).toBeGreaterThan(0);
    expect(logged).toEqual([
      'reading lists from the replica',
      expect.stringMatching(/^replica unavailable \(.+\), reading lists from the primary$/),
      'reading lists from the replica',
    ]);
  });
});

describe('with a replica that has been promoted', () => {
  // The last test: the standby does not become one again.
  it('reads lists from the primary', async () => {
    await list();
    await postgres.promote();
    await untilReplicaIs('unavailable');
    const id = await insertOrder(postgres.db);
    expect((await list()).ids).toContain(id);
    expect(logged.at(-1)).toBe('replica unavailable (it is not a standby), reading lists from the primary');
  });
});
