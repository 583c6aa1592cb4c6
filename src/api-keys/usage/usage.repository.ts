import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { Pools } from '../../database/pools.js';
import type { UsageBatch } from './usage-recorder.js';

/**
 * Adds a batch unless it is added already. The day is that of PostgreSQL's clock, so that replicas whose clocks differ write
 * the same days. In the order of the keys, so that writers cannot deadlock.
 */
const ADD_BATCH = `
  WITH claimed AS (
    INSERT INTO api_key_usage_writers AS writer (id, last_batch, written_at) VALUES ($1, $2, now())
    ON CONFLICT (id) DO UPDATE SET last_batch = excluded.last_batch, written_at = excluded.written_at
    WHERE writer.last_batch < excluded.last_batch
    RETURNING id
  )
  INSERT INTO api_key_usage AS usage (day, key_id, admitted, rejected, banned, lists, cancels, list_bytes)
  SELECT ((now() - make_interval(secs => $3)) AT TIME ZONE 'UTC')::date, batch.*
  FROM unnest($4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[]) AS batch (key_id)
  WHERE EXISTS (SELECT FROM claimed)
  ORDER BY key_id
  ON CONFLICT (day, key_id) DO UPDATE SET
    admitted = usage.admitted + excluded.admitted, rejected = usage.rejected + excluded.rejected,
    banned = usage.banned + excluded.banned, lists = usage.lists + excluded.lists,
    cancels = usage.cancels + excluded.cancels, list_bytes = usage.list_bytes + excluded.list_bytes`;

/** Days that are too old; `$1` is the number of days that are kept. */
const IS_OLD = "day < (now() AT TIME ZONE 'UTC')::date - $1::int";

/** The number of rows in a step is small enough for the statement timeout. One replica at a time has the advisory lock. */
const REMOVE_STEP = `
  WITH turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(482871112565) AS mine)
  DELETE FROM api_key_usage WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM api_key_usage WHERE (SELECT mine FROM turn) AND ${IS_OLD} ORDER BY day LIMIT $2))`;

/** No writer of today sends a batch again after so long. */
const REMOVE_WRITERS = "DELETE FROM api_key_usage_writers WHERE written_at < now() - interval '30 days'";

/** The statements of the service on `api_key_usage`. The reports are in `usage-report.ts`. */
@Injectable()
export class UsageRepository {
  readonly #writerId = randomUUID();

  constructor(private readonly pools: Pools) {}

  /**
   * Adds a batch, once: it may be sent again when the outcome is unknown.
   * @param ageMs how long ago it was counted
   * @returns the number of rows written; 0 when the batch was added by an earlier attempt
   */
  async add({ number, counts }: UsageBatch, ageMs: number): Promise<number> {
    const all = [...counts.values()];
    const { rowCount } = await this.pools.main.query(ADD_BATCH, [
      this.#writerId,
      number,
      ageMs / 1_000,
      [...counts.keys()],
      all.map(({ admitted }) => admitted),
      all.map(({ rejected }) => rejected),
      all.map(({ banned }) => banned),
      all.map(({ lists }) => lists),
      all.map(({ cancels }) => cancels),
      all.map(({ listBytes }) => listBytes),
    ]);
    return rowCount ?? 0;
  }

  /**
   * Removes a number of rows that are too old, unless another replica is doing it.
   * @returns the number of rows removed
   */
  async removeOld(retentionDays: number, rowsMax: number): Promise<number> {
    const { rowCount } = await this.pools.main.query(REMOVE_STEP, [retentionDays, rowsMax]);
    return rowCount ?? 0;
  }

  async countOld(retentionDays: number): Promise<number> {
    const { rows } = await this.pools.main.query<{ count: string }>(
      `SELECT count(*) FROM api_key_usage WHERE ${IS_OLD}`,
      [retentionDays],
    );
    return Number(rows[0]?.count ?? 0);
  }

  async removeOldWriters(): Promise<void> {
    await this.pools.main.query(REMOVE_WRITERS);
  }
}
