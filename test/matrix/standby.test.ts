import type pg from 'pg';
import { etagOf } from '../../src/orders/list/etag.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { ReplicatedPostgres } from '../helpers/replicated-postgres.js';
import { withSeed } from '../helpers/seeded-random.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { connectWriter, observe, Witness, Writer } from '../model/list-writer.js';

const STEPS = 200;
const WRITERS = 3;

let postgres: ReplicatedPostgres;
let service: TestService;
let key: string;

beforeAll(async () => {
  // Replay never waits for a list: it cancels the list.
  postgres = await ReplicatedPostgres.create({ max_standby_streaming_delay: '0' });
  ({ key } = await insertKey(postgres.db));
  await postgres.untilReplayed();
  await startService();
});
afterAll(async () => {
  await service.stop();
  await postgres.drop();
});

async function startService(): Promise<void> {
  service = await startTestService({
    database: postgres,
    environment: { DATABASE_REPLICA_URL: postgres.replicaUrl, LIST_CACHE_MB: '1' },
  });
}

async function list(): Promise<{ etag: string; text: string }> {
  const response = await listOrders(service.baseUrl, key);
  expect(response.status).toBe(200);
  return { etag: response.headers.get('etag') ?? '', text: await response.text() };
}

async function untilReplicaIs(state: 'available' | 'unavailable'): Promise<void> {
  await waitFor(async () => {
    const exported = await service.app.get(Metrics).registry.getSingleMetric('petstore_replica_available')?.get();
    return exported?.values[0]?.value === (state === 'available' ? 1 : 0);
  }, `the replica is ${state}`);
}

async function isLockedExclusively(db: pg.Pool): Promise<boolean> {
  const { rowCount } = await db.query(
    "SELECT FROM pg_locks WHERE relation = 'orders'::regclass AND mode = 'AccessExclusiveLock'",
  );
  return (rowCount ?? 0) > 0;
}

describe('on a standby', () => {
  it('versions name the same content as on the primary, for random statements of several writers', async () => {
    await withSeed(async (random) => {
      const clients = await Promise.all(Array.from({ length: WRITERS }, () => connectWriter(postgres.url)));
      const writers = clients.map((client, index) => new Writer(client, random.fork(), `writer_${index}`));
      const lists = new Witness();
      const pieces = new Witness();
      let observed = 0;
      try {
        for (let step = 0; step < STEPS; step++) {
          await random.pick(writers).step();
          if (!random.chance(0.3)) {
            continue;
          }
          await Promise.all(writers.filter(() => random.chance(0.6)).map((writer) => writer.end()));
          if (await isLockedExclusively(postgres.db)) {
            await Promise.all(writers.map((writer) => writer.end()));
          }
          await postgres.untilReplayed();
          const [primary, standby] = [await observe(postgres.url), await observe(postgres.standbyUrl)];
          expect(standby).toEqual(primary);
          for (const { name, text, pieces: seen } of [primary, standby]) {
            lists.see(name, text);
            seen.forEach((content, piece) => {
              pieces.see(piece, content);
            });
          }
          expect(await list()).toEqual({ etag: etagOf(primary.name), text: primary.text });
          observed++;
        }
      } finally {
        await Promise.all(writers.map((writer) => writer.end()));
        await Promise.all(clients.map((client) => client.end()));
      }
      expect(observed).toBeGreaterThan(20);
    });
  });
});

describe('with a replica of the database', () => {
  it('reads a list from the primary when the replica does not respond', async () => {
    await postgres.pauseReplay();
    const id = await insertOrder(postgres.db);
    postgres.network.stall();
    expect((await list()).text).toContain(`"id":${id},`);
    await untilReplicaIs('unavailable');
    postgres.network.restore();
    await untilReplicaIs('available');
    await postgres.resumeReplay();
  });

  it('starts while the replica is down', async () => {
    await service.stop();
    await postgres.stopStandby();
    await startService();
    const fromPrimary = await list();
    await postgres.startStandby();
    await untilReplicaIs('available');
    expect(await list()).toEqual(fromPrimary);
  });
});
