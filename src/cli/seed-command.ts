import { type Command } from 'commander';
import { integer } from './arguments.js';
import { printResult, warn } from './output.js';
import { ProgressBar } from './progress-bar.js';
import { messageOf, UsageError } from './report-error.js';
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
    .description('insert generated orders, the same ones every time; existing orders stay as they are')
    .option('--orders <n>', 'number of orders', integer(1, ORDERS_MAX), ORDERS_DEFAULT)
    .option('--force', 'run with NODE_ENV=production too')
    .option('--json', 'print {"made", "existing", "seconds", "ordersPerSecond"}')
    .addHelpText('after', '\nExample:\n  petstore seed --orders 1000000')
    .action(async ({ orders, force, json }: SeedOptions) => {
      if (process.env.NODE_ENV === 'production' && force !== true) {
        throw new UsageError(
          'NODE_ENV is production, where generated orders are rarely wanted; pass --force to insert them.',
        );
      }
      const { seedOrders } = await import('../orders/seed-orders.js');
      const { withDatabase } = await import('./command-database.js');
      const bar = new ProgressBar();
      const startedAtMs = performance.now();
      let committed = 0;
      const onProgress = (done: number): void => {
        committed = done;
        bar.update(done / orders, done);
      };
      const made = await withDatabase([{ table: 'orders', privileges: ['SELECT', 'INSERT'] }], (db) =>
        seedOrders(db, orders, onProgress, warn),
      )
        .finally(() => bar.clear())
        .catch((error: unknown) => {
          throw committed === 0
            ? error
            : new Error(
                `${messageOf(error)}; the orders up to id ${committed} are committed. Run the command again for the rest.`,
                { cause: error },
              );
        });
      const pace = paceOf(made, performance.now() - startedAtMs);
      await printResult(
        json,
        { made, existing: orders - made, ...pace },
        `${count(made)} orders inserted (${describePace(pace)}), ${count(orders - made)} existed already.`,
      );
    });
}
