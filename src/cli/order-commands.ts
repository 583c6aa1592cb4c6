import { type FileHandle, open } from 'node:fs/promises';
import { extname } from 'node:path';
import type { Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import type { ImportFormat } from '../orders/import/stage-orders.js';
import { print } from './print.js';
import { ProgressBar } from './progress-bar.js';
import { UsageError } from './usage-error.js';
import { count, describePace, paceOf } from './wording.js';

const FORMAT_OF_EXTENSION: Readonly<Record<string, ImportFormat>> = {
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
};

const IMPORT_HELP = `
A file holds one order a line, as NDJSON or as CSV with a header line. Fields:
  petId     required  int64
  quantity  required  a whole number, at least 1
  shipDate            RFC 3339, like 2026-12-01T10:00:00Z; kept to the millisecond
  complete            true or false (false)
  id                  int64, not taken yet; the next free one when left out
  status              pending, shipped or cancelled (shipped when complete, else pending)

Examples:
  petstore orders import orders.ndjson --dry-run
  petstore orders import orders.csv
  gunzip --stdout orders.ndjson.gz | petstore orders import - --format ndjson`;

interface ImportCommandOptions {
  readonly format?: ImportFormat;
  readonly dryRun?: true;
  readonly json?: true;
}

interface Input {
  readonly source: Readable;
  /** Undefined when that is not known. */
  readonly sizeBytes: number | undefined;
}

export function addOrderCommands(program: Command): void {
  program
    .command('orders')
    .description('fill the order table')
    .command('import')
    .description('import orders from a file: all of them, or none and a list of what is wrong')
    .argument('<file>', 'the file, or - for stdin')
    .addOption(
      new Option('--format <format>', 'what the file is (default: by its extension, .ndjson, .jsonl or .csv)').choices([
        'ndjson',
        'csv',
      ]),
    )
    .option('--dry-run', 'check everything, also against the orders that exist, and change nothing')
    .option('--json', 'print {"orders", "dryRun", "seconds", "ordersPerSecond"}')
    .addHelpText('after', IMPORT_HELP)
    .action(importFile);
}

async function importFile(file: string, options: ImportCommandOptions): Promise<void> {
  const dryRun = options.dryRun ?? false;
  const chosen = options.format ?? FORMAT_OF_EXTENSION[extname(file).toLowerCase()];
  if (chosen === undefined) {
    throw new UsageError('Say with --format whether the file is ndjson or csv: its name does not.');
  }
  const { importOrders } = await import('../orders/import/import-orders.js');
  const { withDatabase } = await import('./with-database.js');
  const { source, sizeBytes } = await openInput(file);
  const bar = new ProgressBar();
  const onProgress = (bytes: number, read: number): void =>
    bar.update(sizeBytes === undefined ? undefined : bytes / sizeBytes, read);
  const startedAtMs = performance.now();
  const orders = await withDatabase((db) => importOrders(db, { source, format: chosen, dryRun, onProgress })).finally(
    () => {
      bar.clear();
      source.destroy();
    },
  );
  const pace = paceOf(orders, performance.now() - startedAtMs);
  const done = dryRun ? 'orders can be imported; nothing was changed' : 'orders imported';
  print(options.json, { orders, dryRun, ...pace }, `${count(orders)} ${done} (${describePace(pace)}).`);
}

/** Before anything else, so that a file that is not there is told without a database. */
async function openInput(file: string): Promise<Input> {
  if (file === '-') {
    return { source: process.stdin, sizeBytes: undefined };
  }
  let handle: FileHandle | undefined;
  try {
    handle = await open(file);
    const stats = await handle.stat();
    if (stats.isDirectory()) {
      throw Object.assign(new Error('a directory'), { code: 'EISDIR' });
    }
    return { source: handle.createReadStream(), sizeBytes: stats.size > 0 ? stats.size : undefined };
  } catch (error) {
    await handle?.close();
    throw new Error(`The file ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unreadable'}).`, {
      cause: error,
    });
  }
}
