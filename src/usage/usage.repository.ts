import { Injectable } from '@nestjs/common';
import { PrismaService } from '../database/prisma.service.js';
import type { UsageRow } from './usage-counts.js';

/** The statements that record usage. The report has its own. */
@Injectable()
export class UsageRepository {
  constructor(private readonly prisma: PrismaService) {}

  /** Records by the database's clock when keys were last used, at most once a minute: each record is a new version of a row. */
  async touch(ids: readonly string[]): Promise<void> {
    await this.prisma.$executeRaw`
      UPDATE api_keys SET last_used_at = now()
      WHERE id = ANY(${ids}::uuid[]) AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')`;
  }

  /** Resolves when the database responds and commits. */
  async ping(): Promise<void> {
    await this.prisma.$executeRaw`SELECT 1`;
  }

  /**
   * Adds rows, each to the day of PostgreSQL's clock on which it was first counted, so that replicas whose clocks differ write
   * the same days. Days of the two clocks do not begin at the same moment: two rows of a key may be of one day here. In the order of
   * the primary key, so that replicas cannot deadlock.
   * @param rows few enough for the statement timeout
   * @param nowMs the clock that counted the rows. Unix milliseconds
   */
  async addUsage(rows: readonly UsageRow[], nowMs: number): Promise<void> {
    await this.prisma.$executeRaw`
      INSERT INTO api_key_usage AS usage (day, key_id, admitted, rejected, banned, lists, cancels, list_bytes)
      SELECT ((now() - greatest(${nowMs}::bigint - "sinceMs", 0) * interval '1 millisecond') AT TIME ZONE 'UTC')::date,
             "keyId", sum(admitted), sum(rejected), sum(banned), sum(lists), sum(cancels), sum("listBytes")
      FROM json_to_recordset(${JSON.stringify(rows)}::json) AS counted
        ("sinceMs" bigint, "keyId" uuid, admitted bigint, rejected bigint, banned bigint, lists bigint, cancels bigint, "listBytes" bigint)
      GROUP BY 1, 2
      ORDER BY 1, 2
      ON CONFLICT (day, key_id) DO UPDATE SET
        admitted = usage.admitted + excluded.admitted, rejected = usage.rejected + excluded.rejected,
        banned = usage.banned + excluded.banned, lists = usage.lists + excluded.lists,
        cancels = usage.cancels + excluded.cancels, list_bytes = usage.list_bytes + excluded.list_bytes`;
  }

  /**
   * Removes the oldest rows of the days that are too old. Replicas that do it at the same time remove different rows.
   * @param rowsMax few enough for the statement timeout
   * @returns the number of rows removed
   */
  removeOldUsage(retentionDays: number, rowsMax: number): Promise<number> {
    return this.prisma.$executeRaw`
      DELETE FROM api_key_usage WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM api_key_usage WHERE day < (now() AT TIME ZONE 'UTC')::date - ${retentionDays}::int
        ORDER BY day LIMIT ${rowsMax}::int FOR UPDATE SKIP LOCKED))`;
  }
}
