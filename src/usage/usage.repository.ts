import { Injectable } from '@nestjs/common';
import { PrismaService } from '../database/prisma.service.js';
import type { UsageRow } from './usage-counts.js';

/** A day of 10,000 keys; few enough for the statement timeout, three seconds. */
const REMOVED_ROWS_MAX = 10_000;

/** The statements that record usage. The report has its own. */
@Injectable()
export class UsageRepository {
  constructor(private readonly prisma: PrismaService) {}

  /**
   * Adds rows to the current day of PostgreSQL's clock, in the order of the primary key, so that replicas cannot deadlock, and records when
   * the keys were last used, at most once a minute: each record is a new version of a row. In one statement: counts that were committed
   * without the other would be written again. A key that another transaction has locked is skipped until its next use.
   * @param rows few enough for the statement timeout
   */
  async addUsage(rows: readonly UsageRow[]): Promise<void> {
    await this.prisma.$executeRaw`
      WITH counted AS (
        SELECT * FROM json_to_recordset(${JSON.stringify(rows)}::json) AS counted
          ("keyId" uuid, admitted bigint, rejected bigint, banned bigint, lists bigint, cancels bigint, "listBytes" bigint)
      ), used AS (
        UPDATE api_keys SET last_used_at = now() WHERE id IN (
          SELECT id FROM api_keys
          WHERE id IN (SELECT "keyId" FROM counted) AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')
          FOR NO KEY UPDATE SKIP LOCKED)
      )
      INSERT INTO api_key_usage AS usage (day, key_id, admitted, rejected, banned, lists, cancels, list_bytes)
      SELECT (now() AT TIME ZONE 'UTC')::date, "keyId", admitted, rejected, banned, lists, cancels, "listBytes"
      FROM counted ORDER BY "keyId"
      ON CONFLICT (day, key_id) DO UPDATE SET
        admitted = usage.admitted + excluded.admitted, rejected = usage.rejected + excluded.rejected,
        banned = usage.banned + excluded.banned, lists = usage.lists + excluded.lists,
        cancels = usage.cancels + excluded.cancels, list_bytes = usage.list_bytes + excluded.list_bytes`;
  }

  /** Removes rows of days that are too old, none that another replica removes at the same time. */
  async removeOldUsage(retentionDays: number): Promise<void> {
    await this.prisma.$executeRaw`
      DELETE FROM api_key_usage WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM api_key_usage WHERE day < (now() AT TIME ZONE 'UTC')::date - ${retentionDays}::int
        LIMIT ${REMOVED_ROWS_MAX}::int FOR UPDATE SKIP LOCKED))`;
  }
}
