import { open, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import type { ImportFormat } from '../orders/import/stage-orders.js';
import { integer } from './arguments.js';
import { printResult } from './output.js';
import { Interrupted, messageOf, UsageError } from './report-error.js';
import { count } from './table.js';

const FORMAT_OF_EXTENSION: Readonly<Record<string, ImportFormat>> = {
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
};

const ORDERS_DEFAULT = 1_000;
const ORDERS_MAX = 100_000_000;

const IMPORT_HELP = `
The file has one order per line, as NDJSON or as CSV with a header line. Fields:
  petId     required  int64
  quantity  required  an integer, at least 1
  shipDate            RFC 3339, like 2026-12-01T10:00:00Z; stored to the millisecond
  complete            true or false (default false)
  id                  int64, not the id of an existing order (default: the next id)
  status              pending, shipped or cancelled (default: shipped when complete, otherwise pending)

Examples:
  petstore orders import orders.ndjson --dry-run
  petstore orders import orders.csv
  gunzip orders.ndjson.gz && petstore orders import orders.ndjson`;

interface ImportCommandOptions {
  readonly format?: ImportFormat;
  readonly dryRun?: true;
  readonly allowEmpty?: true;
  readonly json?: true;
}

export function addOrderCommands(program: Command): void {
  program
    .command('orders')
    .description('load orders')
    .command('import')
    .description('import the orders of a file: all of them, or none and a list of the errors')
    .argument('<file>', 'path of the file, or - for stdin, whose end is taken for that of the file')
    .addOption(
      new Option('--format <format>', 'format of the file (default: by the extension .ndjson, .jsonl or .csv)').choices(
        ['ndjson', 'csv'],
      ),
    )
    .option('--dry-run', 'check everything, also against the existing orders, and change nothing')
    .option('--allow-empty', 'accept a file without orders')
    .option('--json', 'print {"orders", "dryRun"}')
    .addHelpText('after', IMPORT_HELP)
    .action(importFile);
}

async function importFile(file: string, options: ImportCommandOptions): Promise<void> {
  const { dryRun = false, allowEmpty = false } = options;
  const chosen = options.format ?? FORMAT_OF_EXTENSION[extname(file).toLowerCase()];
  if (chosen === undefined) {
    throw new UsageError('Cannot infer the format from the file name; pass --format csv or --format ndjson.');
  }
  const { importOrders } = await import('../orders/import/import-orders.js');
  const { loadOrders } = await import('./load-orders.js');
  const source = await openInput(file);
  const orders = await loadOrders(
    (db, listener) => {
      // Also ends a wait for stdin.
      addAbortSignal(listener.signal, source);
      return importOrders(db, { source, format: chosen, dryRun, allowEmpty, ...listener });
    },
    (cause) => (cause instanceof Interrupted ? new Interrupted('Interrupted: nothing was imported.') : cause),
  ).finally(() => source.destroy());
  const done = dryRun ? 'orders are valid; nothing was imported' : 'orders imported';
  await printResult(options.json, { orders, dryRun }, `${count(orders)} ${done}.`);
}

/** Opened before the connection, so that a wrong path is reported without a database. */
async function openInput(file: string): Promise<Readable> {
  if (file === '-') {
    return process.stdin;
  }
  try {
    if ((await stat(file)).isDirectory()) {
      throw Object.assign(new Error('a directory'), { code: 'EISDIR' });
    }
    return (await open(file)).createReadStream();
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new Error(`Cannot read the file ${JSON.stringify(file)} (${reason}); check the path and its permissions.`, {
      cause: error,
    });
  }
}

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
    return new Interrupted(
      committed === 0 ? 'Interrupted: no order was inserted; the next ids may be skipped.' : `Interrupted: ${rest}`,
    );
  }
  return committed === 0 ? cause : new Error(`${messageOf(cause)}; ${rest}`, { cause });
}
