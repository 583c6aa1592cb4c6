import { Injectable } from '@nestjs/common';
import { type ApiKey, Prisma } from '../database/generated/client.js';
import { databaseCall } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { quotasOf } from '../plans/plans.js';
import type { VerifiedKey } from './verified-key.js';

type KeyRow = [
  id: string,
  plan: ApiKey['plan'],
  perMinute: number | null,
  perDay: number | null,
  expiresAtMs: string | null,
];

/** The queries of the request path on `api_keys`. Administration is in {@link ApiKeysAdmin}. */
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
}
