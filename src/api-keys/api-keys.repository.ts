import { Injectable } from '@nestjs/common';
import { type ApiKey, Prisma } from '../database/generated/client.js';
import { databaseCall } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { type Plan, type Quotas, quotasOf } from '../plans/plans.js';
import type { UsageRow } from './usage/usage-counts.js';

/** A key that exists and is not revoked, as the request path knows it. */
export interface VerifiedKey {
  readonly id: string;
  readonly plan: Plan;
  readonly quotas: Quotas;
  /** Unix milliseconds from which the key is no longer good; undefined when it does not expire. */
  readonly expiresAtMs: number | undefined;
}

type KeyRow = [
  id: string,
  plan: ApiKey['plan'],
  perMinute: number | null,
  perDay: number | null,
  expiresAtMs: string | null,
];

/** The statements of the service on `api_keys` and `api_key_usage`. Administration and reports have their own. */
@Injectable()
export class ApiKeysRepository {
  constructor(private readonly prisma: PrismaService) {}

  /** The key with this SHA-256 (hexadecimal), unless there is none or it is revoked. Expiry is left to the caller's clock. */
  async findByHash(keyHash: string): Promise<VerifiedKey | undefined> {
    const [row] = await databaseCall(() =>
      this.prisma.queryRows<KeyRow>(Prisma.sql`
        SELECT id::text, plan::text, requests_per_minute, requests_per_day,
               (extract(epoch FROM expires_at) * 1000)::float8::text
        FROM api_keys WHERE key_hash = decode(${keyHash}, 'hex') AND revoked_at IS NULL`),
    );
    if (row === undefined) {
      return undefined;
    }
    const [id, plan, requestsPerMinute, requestsPerDay, expiresAtMs] = row;
    const quotas = quotasOf(plan, { requestsPerMinute, requestsPerDay });
    return { id, plan, quotas, expiresAtMs: expiresAtMs === null ? undefined : Number(expiresAtMs) };
  }

  /** Records by the database's clock when keys were last used, at most once a minute: each record is a new version of a row. */
  async touch(ids: readonly string[]): Promise<void> {
    await this.prisma.execute(Prisma.sql`
      UPDATE api_keys SET last_used_at = now()
      WHERE id = ANY(${`{${ids.join()}}`}::text::uuid[])
        AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')`);
  }

  /** Resolves when the database responds and commits. */
  ping(): Promise<unknown> {
    return this.prisma.beforeWrite().then(() => this.prisma.execute(Prisma.sql`SELECT 1`));
  }

  /**
   * Adds rows. They are counted back from the day of PostgreSQL's clock, so that replicas whose clocks differ write the same
   * days. In the order of the primary key, so that replicas cannot deadlock.
   * @param today the day of the clock that counted the rows
   */
  async addUsage(rows: readonly UsageRow[], today: number): Promise<void> {
    await this.prisma.execute(Prisma.sql`
      INSERT INTO api_key_usage AS usage (day, key_id, admitted, rejected, banned, lists, cancels, list_bytes)
      SELECT (now() AT TIME ZONE 'UTC')::date - (${String(today)}::int - day),
             "keyId", admitted, rejected, banned, lists, cancels, "listBytes"
      FROM json_to_recordset(${JSON.stringify(rows)}::json) AS counted
        (day int, "keyId" uuid, admitted bigint, rejected bigint, banned bigint, lists bigint, cancels bigint, "listBytes" bigint)
      ORDER BY 1, 2
      ON CONFLICT (day, key_id) DO UPDATE SET
        admitted = usage.admitted + excluded.admitted, rejected = usage.rejected + excluded.rejected,
        banned = usage.banned + excluded.banned, lists = usage.lists + excluded.lists,
        cancels = usage.cancels + excluded.cancels, list_bytes = usage.list_bytes + excluded.list_bytes`);
  }

  /**
   * Removes the oldest rows of the days that are too old. Replicas that do it at the same time remove different rows.
   * @param rowsMax few enough for the statement timeout
   * @returns the number of rows removed
   */
  removeOldUsage(retentionDays: number, rowsMax: number): Promise<number> {
    return this.prisma.execute(Prisma.sql`
      DELETE FROM api_key_usage WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM api_key_usage WHERE day < (now() AT TIME ZONE 'UTC')::date - ${String(retentionDays)}::int
        ORDER BY day LIMIT ${String(rowsMax)}::int FOR UPDATE SKIP LOCKED))`);
  }
}
