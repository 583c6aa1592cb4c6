import { Injectable } from '@nestjs/common';
import { databaseCall } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { quotasOf } from '../plans/plans.js';
import type { VerifiedKey } from './verified-key.js';

/** Hexadecimal digits of a digest that {@link ApiKeysRepository.digestPrefixes} returns for each key. */
export const DIGEST_PREFIX_LENGTH = 16;

/** The queries of the request path on `api_keys`. Administration is in {@link ApiKeysAdmin}. */
@Injectable()
export class ApiKeysRepository {
  constructor(private readonly prisma: PrismaService) {}

  /** The key with this SHA-256 (hexadecimal), unless there is none or it is revoked. Expiry is left to the caller's clock. */
  async findByHash(keyHash: string): Promise<VerifiedKey | undefined> {
    const row = await databaseCall(() =>
      this.prisma.apiKey.findUnique({
        where: { keyHash: Buffer.from(keyHash, 'hex') },
        select: {
          id: true,
          plan: true,
          requestsPerMinute: true,
          requestsPerDay: true,
          expiresAt: true,
          revokedAt: true,
        },
      }),
    );
    if (row?.revokedAt !== null) {
      return undefined;
    }
    return { id: row.id, plan: row.plan, quotas: quotasOf(row.plan, row), expiresAtMs: row.expiresAt?.getTime() };
  }

  /** The prefixes of the digests of all keys that are not revoked, concatenated: one row, because rows are what costs. */
  async digestPrefixes(): Promise<string> {
    const [row] = await databaseCall(
      () => this.prisma.$queryRaw<{ prefixes: string | null }[]>`
        SELECT string_agg(encode(substring(key_hash FOR 8), 'hex'), '') AS prefixes FROM api_keys WHERE revoked_at IS NULL`,
    );
    return row?.prefixes ?? '';
  }

  /** Records when keys were last used, by the database's clock, in one statement. */
  async touch(ids: readonly string[]): Promise<void> {
    await databaseCall(
      () => this.prisma.$executeRaw`UPDATE api_keys SET last_used_at = now() WHERE id = ANY(${ids}::uuid[])`,
    );
  }
}
