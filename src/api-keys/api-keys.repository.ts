import { Injectable } from '@nestjs/common';
import { type ApiKey, Prisma } from '../database/generated/client.js';
import { databaseCall } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { type Plan, type Quotas, quotasOf } from '../plans/plans.js';

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

/** The look-up of API keys. Administration has its own statements. */
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
}
