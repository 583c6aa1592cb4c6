import { open, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import type { ImportFormat } from '../orders/import/stage-orders.js';
import { printResult } from './output.js';
import { Interrupted, UsageError } from './report-error.js';
import { count } from './table.js';

const FORMAT_OF_EXTENSION: Readonly<Record<string, ImportFormat>> = {
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
};

const IMPORT_HELP = `
The file has one order per line, as NDJSON or as CSV with a header line. Fields:
  petId     required  int64
  quantity  required  an integer, at least 1
  shipDate            RFC 3339, like 2026-12-01T10:00:00Z; stored to the millisecond
  complete            true or false (default false)
  id                  int64, not the id of an existing order (default: the next id)
  status              pending, shipped or cancelled (default: shipped when complete, otherwise pending)

Examples (pipefail: so that the shell reports a broken file, too):
  petstore orders import orders.ndjson --dry-run
  petstore orders import orders.csv
  set -o pipefail
  gunzip --stdout orders.ndjson.gz | petstore orders import - --format ndjson`;

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
    .argument('<file>', 'path of the file, or - for stdin')
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
