import { type FileHandle, open } from 'node:fs/promises';
import { extname } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import type { ImportPhase } from '../orders/import/import-orders.js';
import type { ImportFormat } from '../orders/import/stage-orders.js';
import type { TableAccess } from './command-database.js';
import { printResult, warn } from './output.js';
import { Progress } from './progress.js';
import { Interrupted, UsageError } from './report-error.js';
import { count, describePace, paceOf } from './wording.js';

const ACCESS: readonly TableAccess[] = [{ table: 'orders', privileges: ['SELECT', 'INSERT'] }];

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

interface Input {
  readonly source: Readable;
  /** Undefined for stdin and other streams. */
  readonly sizeBytes: number | undefined;
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
    .option('--json', 'print {"orders", "dryRun", "seconds", "ordersPerSecond"}')
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
  const { withDatabase } = await import('./command-database.js');
  const { Interrupts } = await import('./interrupts.js');
  const { source, sizeBytes } = await openInput(file);
  const progress = new Progress('reading');
  const onProgress = (bytes: number, read: number): void => {
    progress.update(sizeBytes === undefined ? undefined : Math.min(1, bytes / sizeBytes), read);
  };
  const startedAtMs = performance.now();
  let interrupts: Awaited<ReturnType<typeof Interrupts.during>> | undefined;
  const orders = await withDatabase(ACCESS, async (db, url) => {
    interrupts = await Interrupts.during(db, url);
    const { signal } = interrupts;
    const onPhase = (phase: ImportPhase): void => {
      progress.phase(phase);
      if (phase === 'committing') {
        interrupts?.ignore();
      }
    };
    // Also ends a wait for stdin.
    addAbortSignal(signal, source);
    return importOrders(db, {
      source,
      format: chosen,
      dryRun,
      allowEmpty,
      signal,
      onProgress,
      onPhase,
      onWarning: warn,
    });
  })
    .catch((error: unknown) => {
      throw interrupts?.signal.aborted === true ? new Interrupted('Interrupted: nothing was imported.') : error;
    })
    .finally(() => {
      progress.stop();
      interrupts?.stop();
      source.destroy();
    });
  const pace = paceOf(orders, performance.now() - startedAtMs);
  const done = dryRun ? 'orders are valid; nothing was imported' : 'orders imported';
  await printResult(options.json, { orders, dryRun, ...pace }, `${count(orders)} ${done} (${describePace(pace)}).`);
}

/** Opened before the connection, so that a wrong path is reported without a database. */
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
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new Error(`Cannot read the file ${JSON.stringify(file)} (${reason}); check the path and its permissions.`, {
      cause: error,
    });
  }
}
