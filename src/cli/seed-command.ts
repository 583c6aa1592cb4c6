import { type Command } from 'commander';
import { integer } from './arguments.js';
import { printResult, warn } from './output.js';
import { Progress } from './progress.js';
import { Interrupted, messageOf, UsageError } from './report-error.js';
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
      const { Interrupts } = await import('./interrupts.js');
      const startedAtMs = performance.now();
      let committed = 0;
      const onProgress = (done: number): void => {
        committed = done;
        progress.update(done / orders, done);
      };
      const progress = new Progress('inserting');
      let interrupts: Awaited<ReturnType<typeof Interrupts.during>> | undefined;
      const made = await withDatabase([{ table: 'orders', privileges: ['SELECT', 'INSERT'] }], async (db, url) => {
        interrupts = await Interrupts.during(db, url);
        return seedOrders(db, orders, onProgress, warn, interrupts.signal);
      })
        .catch((error: unknown) => {
          throw failureOf(error, committed, interrupts?.signal.aborted === true);
        })
        .finally(() => {
          progress.stop();
          interrupts?.stop();
        });
      const pace = paceOf(made, performance.now() - startedAtMs);
      await printResult(
        json,
        { made, existing: orders - made, ...pace },
        `${count(made)} orders inserted (${describePace(pace)}), ${count(orders - made)} existed already.`,
      );
    });
}

/** Says what is committed: each step of the seed is a transaction. */
function failureOf(error: unknown, committed: number, isInterrupted: boolean): unknown {
  const rest = `the orders up to id ${committed} are committed. Run the command again for the rest.`;
  if (isInterrupted) {
    return new Interrupted(committed === 0 ? 'Interrupted: nothing was changed.' : `Interrupted: ${rest}`);
  }
  return committed === 0 ? error : new Error(`${messageOf(error)}; ${rest}`, { cause: error });
}
