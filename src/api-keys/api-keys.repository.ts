import { Injectable } from '@nestjs/common';
import type { ApiKey } from '../database/generated/client.js';
import { databaseCall } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { quotasOf } from '../plans/plans.js';
import type { VerifiedKey } from './verified-key.js';

type KeyRow = Pick<ApiKey, 'id' | 'plan' | 'requestsPerMinute' | 'requestsPerDay' | 'expiresAt'>;

/** The queries of the request path on `api_keys`. Administration is in {@link ApiKeysAdmin}. */
@Injectable()
export class ApiKeysRepository {
  constructor(private readonly prisma: PrismaService) {}

  /**
   * The key with this SHA-256 (hexadecimal), unless there is none or it is revoked. Expiry is left to the caller's clock.
   *
   * As all statements of the service, it is a raw query: those do without Prisma's query compiler, which the production
   * bundle loads only when it is needed (60 MB and 0.2 s).
   */
  async findByHash(keyHash: string): Promise<VerifiedKey | undefined> {
    const [row] = await databaseCall(
      () => this.prisma.$queryRaw<KeyRow[]>`
        SELECT id::text, plan::text, requests_per_minute AS "requestsPerMinute", requests_per_day AS "requestsPerDay",
               expires_at AS "expiresAt"
        FROM api_keys WHERE key_hash = ${Buffer.from(keyHash, 'hex')} AND revoked_at IS NULL`,
    );
    if (row === undefined) {
      return undefined;
    }
    return { id: row.id, plan: row.plan, quotas: quotasOf(row.plan, row), expiresAtMs: row.expiresAt?.getTime() };
  }

  /** Records by the database's clock when keys were last used, at most once a minute: each record is a new version of a row. */
  async touch(ids: readonly string[]): Promise<void> {
    await this.prisma.$executeRaw`
      UPDATE api_keys SET last_used_at = now()
      WHERE id = ANY(${ids}::uuid[]) AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')`;
  }
}
