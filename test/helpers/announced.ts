import type { NestExpressApplication } from '@nestjs/platform-express';
import type pg from 'pg';
import { IssuedDigests } from '../../src/api-keys/issued-digests.js';
import { waitFor } from './wait-for.js';

/** The services of this process, by database. */
const services = new WeakMap<pg.Pool, NestExpressApplication[]>();

export function announceKeysTo(app: NestExpressApplication, db: pg.Pool): void {
  services.set(db, [...(services.get(db) ?? []), app]);
}

/** Resolves when the services on a database know a digest that is committed. */
export async function announced(db: pg.Pool, keyHash: string): Promise<void> {
  const own = (services.get(db) ?? []).filter((app) => app.getHttpServer().listening);
  const issued = own.map((app) => app.get(IssuedDigests));
  await waitFor(
    () => issued.every((each) => !each.isComplete || each.has(keyHash)),
    'the services of this process know the key',
  );
  const { rows } = await db.query<{ pid: number; now: string }>(
    `SELECT pid, clock_timestamp()::text AS now FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'petstore-listener'`,
  );
  if (rows.length > own.length) {
    // PostgreSQL sends the notification of an earlier commit before it responds to a heartbeat.
    const sql = 'SELECT FROM pg_stat_activity WHERE pid = ANY($1) AND NOT (state = $2 AND query_start > $3)';
    const values = [rows.map(({ pid }) => pid), 'idle', rows[0]?.now];
    await waitFor(async () => (await db.query(sql, values)).rowCount === 0, 'the other services know the key');
  }
}
