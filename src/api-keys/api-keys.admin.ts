import type { PrismaClient } from '../database/generated/client.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS } from '../plans/plans.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { idRangeOf } from './key-id.js';
import { DISPLAY_PREFIX_LENGTH, generateKey, hashKey } from './key-format.js';

/** A key as an administrator sees it, without the key itself, which is shown once when it is issued. */
export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly keyPrefix: string;
  readonly plan: Plan;
  readonly requestsPerMinute: number | null;
  readonly requestsPerDay: number | null;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  readonly lastUsedAt: Date | null;
}

export interface IssuedKey {
  readonly id: string;
  /** The key in plain text. It cannot be read again. */
  readonly key: string;
}

export interface PlanChoice {
  readonly plan: Plan;
  /** Required for plans with custom quotas, rejected for the others. */
  readonly requestsPerMinute?: number | undefined;
  readonly requestsPerDay?: number | undefined;
}

/** An invalid administrative command. The message is for the operator. */
export class KeyAdministrationError extends Error {}

/** The quotas do not fit the plan: missing for one with custom quotas, or given for one with fixed quotas. */
export class PlanQuotasError extends KeyAdministrationError {
  constructor(
    readonly plan: Plan,
    readonly problem: 'missing' | 'not_allowed',
  ) {
    super(`The plan ${plan} ${problem === 'missing' ? 'requires' : 'does not allow'} custom quotas.`);
  }
}

const RECORD_COLUMNS = {
  id: true,
  name: true,
  keyPrefix: true,
  plan: true,
  requestsPerMinute: true,
  requestsPerDay: true,
  createdAt: true,
  expiresAt: true,
  revokedAt: true,
  lastUsedAt: true,
} as const;

/** Administers API keys. Database notifications make every change take effect in running services within a second. */
export class ApiKeysAdmin {
  constructor(private readonly prisma: PrismaClient) {}

  /** @param deliver hands the key over before it is committed; when that fails, no key is issued */
  async issue(
    { name, expiresAt, ...choice }: PlanChoice & { name: string; expiresAt?: Date | undefined },
    deliver?: (issued: IssuedKey) => Promise<void>,
  ): Promise<IssuedKey> {
    const quotas = quotaColumns(choice);
    const key = generateKey();
    return this.prisma.$transaction(async (transaction) => {
      const { id } = await transaction.apiKey.create({
        data: { name, plan: choice.plan, ...quotas, expiresAt: expiresAt ?? null, ...storedForm(key) },
        select: { id: true },
      });
      await deliver?.({ id, key });
      return { id, key };
    });
  }

  /** All keys, the newest first. */
  list(): Promise<KeyRecord[]> {
    return this.prisma.apiKey.findMany({ select: RECORD_COLUMNS, orderBy: [{ createdAt: 'desc' }, { id: 'asc' }] });
  }

  /** @returns false when the key was revoked already */
  async revoke(id: string): Promise<boolean> {
    const { count } = await this.prisma.apiKey.updateMany({
      where: { id, revokedAt: null },
      data: { revokedAt: new Date() },
    });
    if (count === 0) {
      await this.find(id);
    }
    return count > 0;
  }

  /**
   * Issues a successor with the same name, plan, quotas and expiry; the old key expires after the overlap.
   * @param overlapMs how long both keys are valid
   * @param deliver as for {@link issue}
   */
  async rotate(id: string, overlapMs: number, deliver?: (issued: IssuedKey) => Promise<void>): Promise<IssuedKey> {
    const old = await this.find(id);
    const now = Date.now();
    if (old.revokedAt !== null || (old.expiresAt !== null && old.expiresAt.getTime() <= now)) {
      throw new KeyAdministrationError(
        `The key ${id} is ${old.revokedAt === null ? 'expired' : 'revoked'}; issue a new one instead.`,
      );
    }
    const endOfOverlap = new Date(now + overlapMs);
    const key = generateKey();
    const { name, plan, requestsPerMinute, requestsPerDay, expiresAt } = old;
    return this.prisma.$transaction(async (transaction) => {
      const successor = await transaction.apiKey.create({
        data: { name, plan, requestsPerMinute, requestsPerDay, expiresAt, ...storedForm(key) },
        select: { id: true },
      });
      await transaction.apiKey.update({
        where: { id },
        data: { expiresAt: expiresAt !== null && expiresAt < endOfOverlap ? expiresAt : endOfOverlap },
      });
      await deliver?.({ id: successor.id, key });
      return { id: successor.id, key };
    });
  }

  async setPlan(id: string, choice: PlanChoice): Promise<KeyRecord> {
    await this.find(id);
    return this.prisma.apiKey.update({
      where: { id },
      data: { plan: choice.plan, ...quotaColumns(choice) },
      select: RECORD_COLUMNS,
    });
  }

  /** Makes every running service end a ban of this key. */
  async notifyUnbanned(id: string): Promise<void> {
    await this.prisma.$queryRaw`SELECT pg_notify(${API_KEY_UNBANNED_CHANNEL}, ${id})::text`;
  }

  /**
   * The id that begins with these characters.
   * @throws {KeyAdministrationError} when there is none, or more than one
   */
  async idOf(prefix: string): Promise<string> {
    const { lowest, highest } = idRangeOf(prefix);
    if (lowest === highest) {
      return lowest;
    }
    const found = await this.prisma.apiKey.findMany({
      where: { id: { gte: lowest, lte: highest } },
      select: { id: true },
      take: 3,
    });
    return onlyId(
      prefix,
      found.map(({ id }) => id),
    );
  }

  /** @throws {KeyAdministrationError} when the key does not exist */
  async find(id: string): Promise<KeyRecord> {
    const record = await this.prisma.apiKey.findUnique({ where: { id }, select: RECORD_COLUMNS });
    if (record === null) {
      throw new KeyAdministrationError(noKey(id));
    }
    return record;
  }
}

/**
 * The only id of those that begin with these characters.
 * @throws {KeyAdministrationError} when there is none, or more than one
 */
export function onlyId(prefix: string, ids: readonly string[]): string {
  const [only, ...others] = ids;
  if (only === undefined) {
    throw new KeyAdministrationError(noKey(prefix));
  }
  if (others.length > 0) {
    throw new KeyAdministrationError(
      `The ids of several keys begin with ${prefix} (${ids.join(', ')}); give more characters.`,
    );
  }
  return only;
}

function noKey(id: string): string {
  return `There is no key with the id ${id}. "petstore keys list" shows all keys.`;
}

function storedForm(key: string): { keyPrefix: string; keyHash: Uint8Array<ArrayBuffer> } {
  return { keyPrefix: key.slice(0, DISPLAY_PREFIX_LENGTH), keyHash: Uint8Array.from(Buffer.from(hashKey(key), 'hex')) };
}

function quotaColumns({ plan, requestsPerMinute, requestsPerDay }: PlanChoice): {
  requestsPerMinute: number | null;
  requestsPerDay: number | null;
} {
  const isCustom = PLAN_QUOTAS[plan] === CUSTOM_QUOTAS;
  if (isCustom && (requestsPerMinute === undefined || requestsPerDay === undefined)) {
    throw new PlanQuotasError(plan, 'missing');
  }
  if (!isCustom && (requestsPerMinute !== undefined || requestsPerDay !== undefined)) {
    throw new PlanQuotasError(plan, 'not_allowed');
  }
  return { requestsPerMinute: requestsPerMinute ?? null, requestsPerDay: requestsPerDay ?? null };
}
