import { open } from 'node:fs/promises';
import { constants } from 'node:os';
import type { Command } from 'commander';
import type pg from 'pg';
import { LoadProgress } from '../orders/bulk-load.js';
import type { ImportOptions } from '../orders/import/import-orders.js';
import { findOrder, SHOWN_FIELDS } from '../orders/show-order.js';
import { seedOrders } from '../orders/seed-orders.js';
import { integer, orderId, UsageError } from './arguments.js';
import { withDatabase } from './command-database.js';
import { count, details, print, writeError } from './output.js';

const ORDERS_DEFAULT = 1_000;
const ORDERS_MAX = 100_000_000;
const PROGRESS_MS = 10_000;
const INTERRUPTIONS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const COMMITTING = 'the commit had begun; check whether the orders exist before you repeat it.';

const IMPORT_HELP = `
The file is CSV with a header line that names these fields in any order:
  petId     required  int64
  quantity  required  an integer, at least 1
  shipDate            RFC 3339, like 2026-12-01T10:00:00Z, stored to the millisecond, or none (default none)
  complete            true or false (default false)
  id                  int64, not the id of an existing order (default: the next id)
  status              pending, shipped or cancelled (default: shipped when complete, otherwise pending)
A default applies when the file has no such column. An empty field is an error, and so is a last row without a line
end: what is missing there may have been cut off. Import orders with and without ids of their own from separate files.
Pass --complete for a file of a program that writes no last line end, such as Google Sheets, if you know that it is
complete. What is cut off at the end of a line cannot be detected, so prefer a file to stdin, which may end early.
Integers have no fraction, exponent or leading zeros. Rows without a value, such as ",,", are skipped.

Examples:
  petstore orders import orders.csv --dry-run
  gunzip orders.csv.gz && petstore orders import orders.csv`;

export function addOrderCommands(program: Command): void {
  const orders = program.command('orders').description('import orders, or show one');
  orders
    .command('show')
    .description('show one order with its status')
    .argument('<id>', 'id of the order (after -- when it is negative)', orderId)
    .option('--json', `print {${SHOWN_FIELDS.map((field) => `"${field}"`).join(', ')}}`)
    .action(show);
  orders
    .command('import')
    .description('import the orders of a CSV file: all of them, or none and a list of the errors')
    .argument('<file>', 'path of the file, or - for stdin')
    .option('--dry-run', 'check everything, also against the existing orders, and change nothing')
    .option('--allow-empty', 'accept a file without orders')
    .option('--complete', 'accept a last row without a line end: the file is known to be complete')
    .option('--json', 'print {"orders", "dryRun"}')
    .addHelpText('after', IMPORT_HELP)
    .action(importFile);
  program
    .command('seed')
    .description('insert generated orders, the same ones every time; existing orders stay as they are')
    .option('--orders <n>', 'number of orders', integer(1, ORDERS_MAX), ORDERS_DEFAULT)
    .option('--force', 'run with NODE_ENV=production too')
    .option('--json', 'print {"inserted", "existing"}')
    .addHelpText('after', '\nExample:\n  petstore seed --orders 1000000')
    .action(seed);
}

async function importFile(path: string, options: ImportOptions & { json?: true }): Promise<void> {
  // On demand, so that --help is fast.
  const { importOrders } = await import('../orders/import/import-orders.js');
  // Opened before the connection, so that a wrong path is reported without a database.
  const file = path === '-' ? process.stdin : (await open(path)).createReadStream();
  const orders = await load((db, progress) => importOrders(db, file, options, progress)).finally(() => file.destroy());
  const { json, dryRun = false } = options;
  const done = dryRun ? 'checked; nothing was imported' : 'imported';
  await print(json, { orders, dryRun }, `${ordersText(orders)} ${done}.`);
}

async function show(id: bigint, options: { json?: true }): Promise<void> {
  const order = await withDatabase(({ db }) => findOrder(db, id));
  if (order === undefined) {
    throw new Error(`There is no order with the id ${id}.`);
  }
  const { json, ...fields } = order;
  await print(options.json, json, details(fields));
}

interface SeedOptions {
  readonly orders: number;
  readonly force?: true;
  readonly json?: true;
}

async function seed({ orders, force, json }: SeedOptions): Promise<void> {
  if (process.env.NODE_ENV === 'production' && force !== true) {
    throw new UsageError(
      'NODE_ENV is production, where generated orders are rarely wanted; pass --force to insert them.',
    );
  }
  const inserted = await load((db, progress) => seedOrders(db, orders, progress));
  const existing = orders - inserted;
  const text = `${ordersText(inserted)} inserted, ${count(existing)} existed already.`;
  await print(json, { inserted, existing }, text);
}

/**
 * Loads orders, and writes every ten seconds how many. A signal ends the process and thereby the connection, so that PostgreSQL
 * rolls the load back.
 */
function load(work: (db: pg.Client, progress: LoadProgress) => Promise<number>): Promise<number> {
  return withDatabase(async ({ db }) => {
    // PostgreSQL notices within a second that the connection is closed. Not on every operating system; then when its statement ends.
    await db.query('SET client_connection_check_interval = 1000').catch(() => undefined);
    const progress = new LoadProgress();
    const onInterrupt = (signal: NodeJS.Signals): void => {
      writeError(`Interrupted: ${progress.isCommitting ? COMMITTING : 'no order was inserted.'}\n`);
      // As a shell reports a signal.
      process.exit(128 + constants.signals[signal]);
    };
    INTERRUPTIONS.forEach((signal) => process.once(signal, onInterrupt));
    const timer = setInterval(() => {
      writeError(`${ordersText(progress.orders)}\n`);
    }, PROGRESS_MS);
    try {
      return await work(db, progress);
    } finally {
      clearInterval(timer);
      INTERRUPTIONS.forEach((signal) => process.off(signal, onInterrupt));
    }
  });
}

function ordersText(orders: number): string {
  return `${count(orders)} ${orders === 1 ? 'order' : 'orders'}`;
}
