import { type Command } from 'commander';
import { integer } from './arguments.js';
import { print } from './print.js';
import { ProgressBar } from './progress-bar.js';
import { UsageError } from './usage-error.js';
import { count, describePace, paceOf } from './wording.js';

const ORDERS_DEFAULT = 1_000;
const ORDERS_MAX = 100_000_000;

interface SeedOptions {
  readonly orders: number;
  readonly force?: true;
  readonly json?: true;
}

export function addSeedCommand(program: Command): void {
  program
    .command('seed')
    .description('make generated orders, the same ones every time; orders that exist are left as they are')
    .option('--orders <n>', 'how many', integer(1, ORDERS_MAX), ORDERS_DEFAULT)
    .option('--force', 'also in production (NODE_ENV=production)')
    .option('--json', 'print {"made", "existing", "seconds", "ordersPerSecond"}')
    .addHelpText('after', '\nExample:\n  petstore seed --orders 1000000')
    .action(async ({ orders, force, json }: SeedOptions) => {
      if (process.env.NODE_ENV === 'production' && force !== true) {
        throw new UsageError(
          'Generated orders do not belong into a production database; --force makes them all the same.',
        );
      }
      const { seedOrders } = await import('../orders/seed-orders.js');
      const { withDatabase } = await import('./with-database.js');
      const bar = new ProgressBar();
      const startedAtMs = performance.now();
      const made = await withDatabase((db) => {
        return seedOrders(db, orders, (done) => bar.update(done / orders, done));
      }).finally(() => bar.clear());
      const pace = paceOf(made, performance.now() - startedAtMs);
      print(
        json,
        { made, existing: orders - made, ...pace },
        `${count(made)} orders made (${describePace(pace)}), ${count(orders - made)} were there already.`,
      );
    });
}
