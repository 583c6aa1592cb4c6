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

  /** The keys with these SHA-256 (hexadecimal) by them, without those that are revoked. Expiry is left to the caller's clock. */
  async findByHashes(keyHashes: readonly string[]): Promise<Map<string, VerifiedKey>> {
    const keys = await databaseCall(() =>
      this.prisma.apiKey.findMany({
        where: { keyHash: { in: keyHashes.map((keyHash) => Buffer.from(keyHash, 'hex')) }, revokedAt: null },
        select: { keyHash: true, id: true, plan: true, requestsPerMinute: true, requestsPerDay: true, expiresAt: true },
      }),
    );
    return new Map(
      keys.map(({ keyHash, id, plan, expiresAt, ...quotas }) => [
        Buffer.from(keyHash).toString('hex'),
        { id, plan, quotas: quotasOf(plan, quotas), expiresAt },
      ]),
    );
  }
}
