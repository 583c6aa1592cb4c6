import type { PrismaClient } from '../database/generated/client.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS } from '../plans/plans.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { DISPLAY_PREFIX_LENGTH, generateKey, hashKey } from './key-format.js';

/** What an administrator is told about a key. The key itself is not among it: it is shown once, when it is made. */
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
  /** The key in the clear. It cannot be read again. */
  readonly key: string;
}

export interface PlanChoice {
  readonly plan: Plan;
  /** Required for plans with custom quotas, refused for the others. */
  readonly requestsPerMinute?: number | undefined;
  readonly requestsPerDay?: number | undefined;
}

/** An administrative command that cannot be carried out as given. The message is for the operator. */
export class KeyAdministrationError extends Error {}

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

/** Administers API keys. Running services hear of every change from the database, within a second. */
export class ApiKeysAdmin {
  constructor(private readonly prisma: PrismaClient) {}

  async issue({
    name,
    expiresAt,
    ...choice
  }: PlanChoice & { name: string; expiresAt?: Date | undefined }): Promise<IssuedKey> {
    const quotas = quotaColumns(choice);
    const key = generateKey();
    const { id } = await this.prisma.apiKey.create({
      data: { name, plan: choice.plan, ...quotas, expiresAt: expiresAt ?? null, ...storedForm(key) },
      select: { id: true },
    });
    return { id, key };
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
   * Issues a successor with the same name, plan, quotas and expiry, and lets the key run out.
   * @param overlapMs how long both keys are good
   */
  async rotate(id: string, overlapMs: number): Promise<IssuedKey> {
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
    const [successor] = await this.prisma.$transaction([
      this.prisma.apiKey.create({
        data: { name, plan, requestsPerMinute, requestsPerDay, expiresAt, ...storedForm(key) },
        select: { id: true },
      }),
      this.prisma.apiKey.update({
        where: { id },
        data: { expiresAt: expiresAt !== null && expiresAt < endOfOverlap ? expiresAt : endOfOverlap },
      }),
    ]);
    return { id: successor.id, key };
  }

  async setPlan(id: string, choice: PlanChoice): Promise<KeyRecord> {
    await this.find(id);
    return this.prisma.apiKey.update({
      where: { id },
      data: { plan: choice.plan, ...quotaColumns(choice) },
      select: RECORD_COLUMNS,
    });
  }

  /** Tells every running service to end a ban of this key. */
  async announceUnban(id: string): Promise<void> {
    await this.prisma.$queryRaw`SELECT pg_notify(${API_KEY_UNBANNED_CHANNEL}, ${id})::text`;
  }

  /** @throws {KeyAdministrationError} when there is none */
  async find(id: string): Promise<KeyRecord> {
    const record = await this.prisma.apiKey.findUnique({ where: { id }, select: RECORD_COLUMNS });
    if (record === null) {
      throw new KeyAdministrationError(`There is no key with the id ${id}. "petstore keys list" shows all keys.`);
    }
    return record;
  }
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
    throw new KeyAdministrationError(`The plan ${plan} has quotas of its own: give both --per-minute and --per-day.`);
  }
  if (!isCustom && (requestsPerMinute !== undefined || requestsPerDay !== undefined)) {
    throw new KeyAdministrationError(
      `The plan ${plan} has published quotas: --per-minute and --per-day are for enterprise only.`,
    );
  }
  return { requestsPerMinute: requestsPerMinute ?? null, requestsPerDay: requestsPerDay ?? null };
}
