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

/** What the look-up reads of a key. */
export interface FoundKey {
  readonly id: string;
  readonly plan: Plan;
  readonly requestsPerMinute: number | null;
  readonly requestsPerDay: number | null;
  readonly expiresAt: Date | null;
}

/** The look-up of API keys. Administration has its own statements. */
@Injectable()
export class ApiKeysRepository {
  constructor(private readonly prisma: PrismaService) {}

  /**
   * The keys with these SHA-256 (hexadecimal) by them, without those that are revoked. Expiry is left to the caller's clock. The plan is
   * read as text: Prisma's models fail for all rows when one has a value that their version of the schema does not know.
   */
  async findByHashes(keyHashes: readonly string[]): Promise<Map<string, FoundKey>> {
    const keys = await databaseCall(
      () => this.prisma.$queryRaw<(FoundKey & { keyHash: string })[]>`
        SELECT encode(key_hash, 'hex') AS "keyHash", id::text, plan::text, requests_per_minute AS "requestsPerMinute",
               requests_per_day AS "requestsPerDay", expires_at AS "expiresAt"
        FROM api_keys
        WHERE key_hash IN (SELECT decode(hash, 'hex') FROM unnest(${keyHashes}::text[]) AS hash) AND revoked_at IS NULL`,
    );
    return new Map(keys.map(({ keyHash, ...key }) => [keyHash, key]));
  }
}

/** @throws {Error} for a plan that this version does not know */
export function verifiedKeyOf({ id, plan, expiresAt, ...quotas }: FoundKey): VerifiedKey {
  return { id, plan, quotas: quotasOf(plan, quotas), expiresAt };
}
