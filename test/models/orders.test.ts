import { insertKey } from '../helpers/builders.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { withTraffic } from './order-traffic.js';

/** Enough for every pair of actions to coincide many times. */
const RESPONSES = 2_000;

const database = useTestDatabase();

describeWithRedis('random traffic over three services with one database and Redis', () => {
  let redis: RedisServer;
  let services: ServiceProcess[] = [];

  beforeAll(async () => {
    redis = await RedisServer.start();
    const environment = { DATABASE_URL: database.url, REDIS_URL: redis.url };
    services = await Promise.all([1, 2, 3].map(() => ServiceProcess.start(environment)));
  });
  afterAll(async () => {
    await Promise.all(services.map((service) => service.stop()));
    await redis.stop();
  });

  it('each order leaves pending once, and every list shows a state that existed', async () => {
    const { key } = await insertKey(database.db);
    const options = { services: () => services, db: database.db, key, clients: 24, ledgers: 3 };
    await withTraffic(options, async (traffic) => {
      await waitFor(() => traffic.total >= RESPONSES, `${RESPONSES} responses have arrived`, { withinMs: 170_000 });
      // Otherwise the traffic did not exercise every outcome.
      const outcomes = [
        '204',
        '409 order_already_cancelled',
        '409 order_already_shipped',
        '404 order_not_found',
        '200',
      ];
      expect(outcomes.filter((outcome) => traffic.count(outcome) < 20)).toEqual([]);
    });
  });
});
