import { type Command } from 'commander';
import { integer } from './arguments.js';
import { printResult } from './output.js';
import { Interrupted, messageOf, UsageError } from './report-error.js';
import { count } from './table.js';

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
    .option('--json', 'print {"made", "existing"}')
    .addHelpText('after', '\nExample:\n  petstore seed --orders 1000000')
    .action(async ({ orders, force, json }: SeedOptions) => {
      if (process.env.NODE_ENV === 'production' && force !== true) {
        throw new UsageError(
          'NODE_ENV is production, where generated orders are rarely wanted; pass --force to insert them.',
        );
      }
      const { seedOrders } = await import('../orders/seed-orders.js');
      const { loadOrders } = await import('./load-orders.js');
      const made = await loadOrders((db, listener) => seedOrders(db, orders, listener), failureOf);
      const existing = orders - made;
      const text = `${count(made)} orders inserted, ${count(existing)} existed already.`;
      await printResult(json, { made, existing }, text);
    });
}

/** Says what is committed: each step of the seed is a transaction. */
function failureOf(cause: unknown, committed: number): unknown {
  const rest = `the orders up to id ${committed} are committed. Run the command again for the rest.`;
  if (cause instanceof Interrupted) {
    return new Interrupted(committed === 0 ? 'Interrupted: nothing was changed.' : `Interrupted: ${rest}`);
  }
  return committed === 0 ? cause : new Error(`${messageOf(cause)}; ${rest}`, { cause });
}
