import { Injectable } from '@nestjs/common';
import { databaseCall } from '../database/postgres-errors.js';
import { PrismaService } from '../database/prisma.service.js';
import { type Plan, type Quotas, quotasOf } from '../plans/plans.js';

/** A key that exists and is not revoked, as the request path knows it. */
export interface VerifiedKey {
  readonly id: string;
  readonly plan: Plan;
  readonly quotas: Quotas;
  /** From then on the key is invalid; null when it does not expire. See {@link isExpired}. */
  readonly expiresAt: Date | null;
}

/** The look-up of API keys. Administration has its own statements. */
@Injectable()
export class ApiKeysRepository {
  constructor(private readonly prisma: PrismaService) {}

  /** The key with this SHA-256 (hexadecimal), unless there is none or it is revoked. Expiry is left to the caller's clock. */
  async findByHash(keyHash: string): Promise<VerifiedKey | undefined> {
    const key = await databaseCall(() =>
      // Not `findUnique`, which merges the calls of one turn into a statement whose text depends on their number.
      this.prisma.apiKey.findFirst({
        where: { keyHash: Buffer.from(keyHash, 'hex'), revokedAt: null },
        select: { id: true, plan: true, requestsPerMinute: true, requestsPerDay: true, expiresAt: true },
      }),
    );
    return key === null
      ? undefined
      : { id: key.id, plan: key.plan, quotas: quotasOf(key.plan, key), expiresAt: key.expiresAt };
  }
}
