import { type Command } from 'commander';
import pg from 'pg';
import { loadConfig } from '../config/load-config.js';
import { seedOrders } from '../seed/seed-orders.js';
import { wholeNumber } from './arguments.js';
import { databaseUrl } from './database-url.js';
import { UsageError } from './usage-error.js';

const ORDERS_DEFAULT = 1_000;
const ORDERS_MAX = 100_000_000;

export function addSeedCommand(program: Command): void {
  program
    .command('seed')
    .description('make generated orders, the same ones every time; orders that exist are left as they are')
    .option('--orders <n>', 'how many', wholeNumber(1, ORDERS_MAX), ORDERS_DEFAULT)
    .option('--force', 'also in production (NODE_ENV=production)', false)
    .action(async ({ orders, force }: { orders: number; force: boolean }) => {
      if (loadConfig(process.env).production && !force) {
        throw new UsageError(
          'Generated orders do not belong into a production database; --force makes them all the same.',
        );
      }
      const client = new pg.Client({ connectionString: await databaseUrl(), connectionTimeoutMillis: 5_000 });
      await client.connect();
      try {
        const made = await seedOrders(client, orders, progressOf(orders));
        process.stdout.write(`${made} orders made, ${orders - made} were there already.\n`);
      } finally {
        await client.end();
      }
    });
}

/** Rewrites one line, on a terminal only. */
function progressOf(total: number): (done: number) => void {
  if (!process.stderr.isTTY) {
    return () => undefined;
  }
  return (done) => {
    process.stderr.write(`\r${Math.floor((done / total) * 100)} % (${done} of ${total})${done === total ? '\n' : ''}`);
  };
}
