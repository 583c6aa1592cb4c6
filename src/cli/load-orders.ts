import type pg from 'pg';
import { openClient } from '../database/open-client.js';
import type { LoadListener } from '../orders/bulk-load.js';
import { type TableAccess, withDatabase } from './command-database.js';
import { warn, writeError } from './output.js';
import { Interrupted } from './report-error.js';
import { count } from './table.js';

const PROGRESS_MS = 10_000;

const CANCEL = `
  SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = 'petstore-cli'`;

const ACCESS: readonly TableAccess[] = [
  { table: 'orders', privileges: ['SELECT', 'INSERT'] },
  { table: 'orders_id_seq', privileges: ['SELECT', 'UPDATE'] },
];

/**
 * Inserts orders, and writes every ten seconds how many. Ctrl-C ends the work in order, so that the command can say what was
 * changed; a second Ctrl-C ends the process at once.
 * @param failureOf what to report, by the number of orders at the last progress
 */
export function loadOrders<T>(
  work: (db: pg.Client, listener: Required<LoadListener>) => Promise<T>,
  failureOf: (cause: unknown, orders: number) => unknown,
): Promise<T> {
  return withDatabase(ACCESS, async (db, url) => {
    // Not the process id of the connection, which a pooler makes up.
    const { rows } = await db.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const controller = new AbortController();
    let [orders, isCommitting] = [0, false];
    const onInterrupt = (): void => {
      if (!isCommitting) {
        controller.abort(new Interrupted('Interrupted'));
        // Without it the command ends after its statement.
        cancelStatement(url, rows[0]?.pid).catch(() => undefined);
      }
    };
    process.once('SIGINT', onInterrupt);
    const timer = setInterval(() => {
      writeError(`${count(orders)} orders\n`);
    }, PROGRESS_MS);
    const listener = {
      onProgress: (done: number) => (orders = done),
      onWarning: warn,
      onCommit: () => (isCommitting = true),
      signal: controller.signal,
    };
    try {
      return await work(db, listener);
    } catch (error) {
      throw failureOf(controller.signal.aborted ? controller.signal.reason : error, orders);
    } finally {
      clearInterval(timer);
      process.off('SIGINT', onInterrupt);
    }
  });
}

async function cancelStatement(databaseUrl: string, pid: number | undefined): Promise<void> {
  const client = await openClient(databaseUrl, { connectionTimeoutMillis: 2_000 });
  await client.query(CANCEL, [pid]).finally(() => client.end());
}
