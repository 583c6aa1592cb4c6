import { setTimeout as delay } from 'node:timers/promises';
import type { FailingPostgres } from '../helpers/failing-postgres.js';
import type { SeededRandom } from '../helpers/seeded-random.js';
import type { RedisServer } from '../helpers/redis-server.js';
import { waitFor } from '../helpers/wait-for.js';

/** The systems that a fault affects. */
export interface Stage {
  readonly postgres: FailingPostgres;
  readonly redis: RedisServer;
  /** Stops one of the services with a signal and starts another in its place. */
  readonly replaceService: (signal: NodeJS.Signals) => Promise<void>;
  /** Marks the current minute as one in which the services may count separately. */
  readonly suspendQuotaCheck: () => void;
  readonly random: SeededRandom;
}

/** Each fault resolves when it is over. The delays are the random durations of the faults. */
export const FAULTS: Readonly<Record<string, (stage: Stage) => Promise<void>>> = {
  'no fault': () => Promise.resolve(),
  'PostgreSQL restarts': async ({ postgres, random }) => {
    await postgres.stop();
    await delay(random.below(3_000));
    await postgres.start();
  },
  'PostgreSQL crashes': async ({ postgres }) => {
    await postgres.crash();
    const hasRecovered = (): Promise<boolean> =>
      postgres.run('SELECT 1').then(
        () => true,
        () => false,
      );
    await waitFor(hasRecovered, 'PostgreSQL has recovered', { withinMs: 30_000 });
  },
  'PostgreSQL ends sessions': async ({ postgres, random }) => {
    for (let round = 0; round < 20; round++) {
      await postgres.run(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'petstore-%' AND random() < 0.3`,
      );
      await delay(random.below(100));
    }
  },
  'PostgreSQL becomes read-only': async ({ postgres, random }) => {
    await postgres.run('ALTER SYSTEM SET default_transaction_read_only = on');
    await postgres.run('SELECT pg_reload_conf()');
    await delay(500 + random.below(2_000));
    await postgres.run('ALTER SYSTEM RESET default_transaction_read_only');
    await postgres.run('SELECT pg_reload_conf()');
  },
  'the network to PostgreSQL closes connections': async ({ postgres, random }) => {
    for (let round = 0; round < 10; round++) {
      postgres.network.closeConnections();
      await delay(random.below(200));
    }
  },
  'the network to PostgreSQL stalls': async ({ postgres, random }) => {
    postgres.network.stall();
    await delay(random.below(8_000));
    postgres.network.restore();
  },
  'the network drops connections silently': ({ postgres }) => {
    postgres.network.dropSilently();
    return Promise.resolve();
  },
  'Redis restarts empty': async ({ redis, random, suspendQuotaCheck }) => {
    suspendQuotaCheck();
    await redis.kill();
    await delay(random.below(3_000));
    await redis.restart();
    await delay(2_000);
    suspendQuotaCheck();
  },
  'Redis freezes': async ({ redis, random, suspendQuotaCheck }) => {
    suspendQuotaCheck();
    redis.freeze();
    await delay(random.below(3_000));
    redis.thaw();
    await delay(2_000);
    suspendQuotaCheck();
  },
  'a service is killed': ({ replaceService }) => replaceService('SIGKILL'),
  'a service stops': ({ replaceService }) => replaceService('SIGTERM'),
};
