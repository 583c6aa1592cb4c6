import { cancelOrder } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { applyMigration, installFirstRelease } from '../helpers/first-release.js';
import { openTransaction } from '../helpers/lock-waits.js';
import { deployByEngine, prismaMigrate } from '../helpers/prisma-migrate.js';
import { ReleasedProcess } from '../helpers/released-process.js';
import { serviceUrl } from '../helpers/service-login.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';
import { MERGE } from '../model/list-writer.js';
import { withTraffic } from '../model/order-traffic.js';
import { ReleasedTraffic, rethrowUnlessConflict } from '../model/released-traffic.js';

/** The migration of 1.1.0: it waits for no list and no cancel, and 1.0.0 ignores what it makes. */
const MIGRATION = '20261127000000_merge_order_list_changes';

const database = useTestDatabase();

describe('an update from release 1.0.0', () => {
  it('leaves a process of that release working during the migrations, beside a new one, and after the new one', async () => {
    const { db } = database;
    await installFirstRelease(database);
    const released = new ReleasedProcess(await serviceUrl(database, database.url));
    const known = await released.facts();
    const traffic = await ReleasedTraffic.start(released, db);
    try {
      await traffic.more(5);

      // A list and a cancel that last longer than the migration.
      const listing = await openTransaction(
        db,
        'LOCK TABLE orders IN ACCESS SHARE MODE; SELECT FROM order_list_changes',
      );
      const cancelling = await openTransaction(
        db,
        `UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = ${await traffic.insert()}`,
      );
      await applyMigration(database, MIGRATION);
      await traffic.more(5);
      await Promise.all([listing, cancelling].map((end) => end('COMMIT')));
      expect(await released.facts()).toEqual(known);
      // Later ones may lock the table, and change what 1.0.0 knows.
      await prismaMigrate(`resolve --applied ${MIGRATION}`, database.url);
      await deployByEngine(database.url);
      await traffic.more(5);

      const service = await startTestService({ database });
      try {
        const { key } = await insertKey(db);
        await withTraffic({ services: () => [service], db, key, clients: 6, ledgers: 2 }, async (newer) => {
          for (let order = 0; order < 40; order++) {
            const id = await traffic.insert();
            const [older, newest] = await Promise.all([
              released.cancel(id),
              cancelOrder(service.baseUrl, String(id), key),
              order % 4 === 0 ? db.query(MERGE).catch(rethrowUnlessConflict) : undefined,
            ]);
            expect([older, newest.status]).toEqual(older ? [true, 409] : [false, 204]);
          }
          await traffic.more(5);
          await newer.until({ '200': 10, '204': 10 });
        });
      } finally {
        await service.stop();
      }
      await traffic.more(5);
    } finally {
      await traffic.stop();
      await released.end();
    }
  });
});
