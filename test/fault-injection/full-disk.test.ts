import type pg from 'pg';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { FailingPostgres } from '../helpers/failing-postgres.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { describeWithTmpfs, TmpfsVolume } from '../helpers/tmpfs-volume.js';
import { waitFor } from '../helpers/wait-for.js';
import { withTraffic } from '../model/order-traffic.js';

jest.setTimeout(180_000);

/** A new cluster needs about 60 MB: its databases, and its log in segments of 16 MB. */
const DISK_MEGABYTES = 200;
/** Pending orders that the test itself cancels until a cancel fails. */
const SPARE_ORDERS = 2_000;

describeWithTmpfs('when the disk of PostgreSQL is full', () => {
  let disk: TmpfsVolume;
  let postgres: FailingPostgres;
  let db: pg.Pool;
  let key: string;
  let service: ServiceProcess;

  beforeAll(async () => {
    disk = TmpfsVolume.mount(DISK_MEGABYTES);
    postgres = await FailingPostgres.create({}, disk.folder);
    db = postgres.pool(20);
    ({ key } = await insertKey(db));
    service = await ServiceProcess.start({ DATABASE_URL: postgres.serviceUrl, API_KEY_CACHE_SECONDS: '3600' });
  });
  afterAll(async () => {
    await service.stop('SIGKILL');
    await db.end();
    await postgres.discard();
    await disk.unmount();
  });

  /** Makes room for the versions of the list, so that it is the table of orders that cannot grow. */
  async function reserveRoomForVersions(): Promise<void> {
    await db.query('INSERT INTO order_list_changes (block, token) SELECT 0, 0 FROM generate_series(1, 20000)');
    await db.query(
      'DELETE FROM order_list_changes WHERE token = 0 AND ctid < (SELECT max(ctid) FROM order_list_changes WHERE token = 0)',
    );
    await db.query('VACUUM order_list_changes');
  }

  let nextFiller = 10_000_000_000n;
  /** Pending orders in pages without free space, until a deleted row leaves some. */
  const fillers: string[] = [];

  /** Fills the free space in the pages of the table, so that the next change must extend it. */
  async function useUpPages(): Promise<void> {
    for (;;) {
      try {
        fillers.push(await insertOrder(db, { id: String(nextFiller++) }));
      } catch (error) {
        expect(error).toMatchObject({ code: '53100' });
        return;
      }
    }
  }

  it('cancels get 503, lists continue, no committed response is lost, and the service recovers when there is space', async () => {
    const options = { services: () => [service], db, key, clients: 8, ledgers: 1 };
    await withTraffic(options, async (traffic) => {
      try {
        await traffic.until({ '204': 50 });
        // Enough for all cancels that still find room in a page, where the traffic has left dead rows.
        for (let count = 0; count < SPARE_ORDERS; count++) {
          fillers.push(await insertOrder(db, { id: String(nextFiller++) }));
        }
        await reserveRoomForVersions();
        disk.fill();
        let rejected = 0;
        const isFull = async (): Promise<boolean> => {
          await useUpPages();
          // The traffic may have cancelled all of its pending orders before.
          const response = await cancelOrder(service.baseUrl, fillers.at(-1)!, key);
          const outcome = response.status === 204 ? 'cancelled' : (await errorOf(response)).code;
          expect(['cancelled', 'service_unavailable']).toContain(outcome);
          if (outcome === 'cancelled') {
            fillers.pop();
          } else {
            rejected++;
          }
          return rejected >= 20;
        };
        await waitFor(isFull, 'the disk is full', { withinMs: 90_000 });
        await traffic.until({ '200': 10, '304': 10 });
        disk.free();
        await traffic.until({ '204': 50 });
      } finally {
        disk.free();
      }
      const { rows } = await db.query("SELECT id FROM orders WHERE id = ANY($1) AND status = 'pending'", [fillers]);
      expect(rows).toHaveLength(fillers.length);
    });
  });

  it('PostgreSQL exits when it cannot extend its log, every request gets 503 until it is restarted, and nothing is lost', async () => {
    const [cancelled, pending] = [await insertOrder(db), await insertOrder(db)];
    expect((await cancelOrder(service.baseUrl, cancelled, key)).status).toBe(204);
    disk.fill();
    // The next write needs a new segment of the log.
    await db.query('SELECT pg_switch_wal()').catch(() => undefined);
    const rejected = await cancelOrder(service.baseUrl, pending, key);
    expect([rejected.status, (await errorOf(rejected)).code]).toEqual([503, 'service_unavailable']);
    expect(rejected.headers.get('retry-after')).toBe('1');
    await waitFor(() => postgres.hasEnded, 'PostgreSQL has exited');
    expect((await cancelOrder(service.baseUrl, pending, key)).status).toBe(503);
    expect((await listOrders(service.baseUrl, key)).status).toBe(503);
    disk.free();
    await postgres.start();
    const isCancelled = async (): Promise<boolean> => (await cancelOrder(service.baseUrl, pending, key)).status === 204;
    await waitFor(isCancelled, 'cancels succeed again', { withinMs: 15_000 });
    expect([await statusOf(db, cancelled), await statusOf(db, pending)]).toEqual(['cancelled', 'cancelled']);
    expect((await listOrders(service.baseUrl, key)).status).toBe(200);
  });
});
