import { setTimeout as delay } from 'node:timers/promises';
import type { FailingPostgres } from '../helpers/failing-postgres.js';
import type { SeededRandom } from '../helpers/seeded-random.js';
import type { RedisServer } from '../helpers/redis-server.js';
import { waitFor } from '../helpers/wait-for.js';

export interface Stage {
  readonly postgres: FailingPostgres;
  readonly redis: RedisServer;
  /** Ends one of the services by this signal and starts it again. */
  readonly replaceService: (signal: NodeJS.Signals) => Promise<void>;
  /** From here on the services may not count together. */
  readonly disturbQuotas: () => void;
  readonly random: SeededRandom;
}

/** What can go wrong, each until it is over. How long each takes is drawn, which is what the waits are for. */
export const FAULTS: Readonly<Record<string, (stage: Stage) => Promise<void>>> = {
  'nothing goes wrong': () => Promise.resolve(),
  'PostgreSQL is stopped and started': async ({ postgres, random }) => {
    await postgres.stop();
    await delay(random.below(3_000));
    await postgres.start();
  },
  'PostgreSQL crashes': async ({ postgres }) => {
    await postgres.crash();
    const responses = (): Promise<boolean> =>
      postgres.run('SELECT 1').then(
        () => true,
        () => false,
      );
    await waitFor(responses, 'PostgreSQL has recovered', { withinMs: 30_000 });
  },
  'PostgreSQL ends sessions': async ({ postgres, random }) => {
    for (let round = 0; round < 20; round++) {
      await postgres.run(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'petstore-%' AND random() < 0.3`,
      );
      await delay(random.below(100));
    }
  },
  'PostgreSQL is read-only': async ({ postgres, random }) => {
    await postgres.run('ALTER SYSTEM SET default_transaction_read_only = on');
    await postgres.run('SELECT pg_reload_conf()');
    await delay(500 + random.below(2_000));
    await postgres.run('ALTER SYSTEM RESET default_transaction_read_only');
    await postgres.run('SELECT pg_reload_conf()');
  },
  'the network to PostgreSQL is cut': async ({ postgres, random }) => {
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
  'the network forgets its connections': ({ postgres }) => {
    postgres.network.dropSilently();
    return Promise.resolve();
  },
  'Redis is killed and started, empty': async ({ redis, random, disturbQuotas }) => {
    disturbQuotas();
    await redis.kill();
    await delay(random.below(3_000));
    await redis.restart();
    await delay(2_000);
    disturbQuotas();
  },
  'Redis freezes': async ({ redis, random, disturbQuotas }) => {
    disturbQuotas();
    redis.freeze();
    await delay(random.below(3_000));
    redis.thaw();
    await delay(2_000);
    disturbQuotas();
  },
  'a service is killed': ({ replaceService }) => replaceService('SIGKILL'),
  'a service is told to stop': ({ replaceService }) => replaceService('SIGTERM'),
};
