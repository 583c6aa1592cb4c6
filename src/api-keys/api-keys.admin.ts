import { randomInt } from 'node:crypto';
import type { ApiKey, Prisma, PrismaClient } from '../database/generated/client.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import type { Plan } from '../plans/plans.js';
import { hashKey, type KeyState, stateOf } from './key.js';

/** A key as it is read: without its digest. */
type StoredKey = Omit<ApiKey, 'keyHash'>;

/** A key as an administrator sees it, without the key itself, which is shown once when it is issued. */
export interface KeyRecord extends Readonly<StoredKey> {
  readonly state: KeyState;
}

export interface IssuedKey {
  readonly id: string;
  /** The key in plain text. It cannot be read again. */
  readonly key: string;
  readonly expiresAt: Date | null;
}

/** Quotas are given for plans with custom ones only, which a constraint of the table checks. */
export interface PlanChoice {
  readonly plan: Plan;
  readonly requestsPerMinute?: number | null | undefined;
  readonly requestsPerDay?: number | null | undefined;
}

export interface NewKey extends PlanChoice {
  readonly name: string;
  readonly expiresAt?: Date | null | undefined;
}

const omit = { keyHash: true } as const;

/** Administers API keys. Database notifications make every change take effect in running services within a second. */
export class ApiKeysAdmin {
  constructor(private readonly prisma: PrismaClient) {}

  issue(key: NewKey): Promise<IssuedKey> {
    return create(this.prisma, key);
  }

  /** All keys, the newest first. */
  async list(): Promise<KeyRecord[]> {
    const keys = await this.prisma.apiKey.findMany({ omit, orderBy: [{ createdAt: 'desc' }, { id: 'asc' }] });
    return keys.map(recordOf);
  }

  /**
   * The key whose id begins with these characters, in lower case.
   * @throws {Error} when there is none, or more than one
   */
  async find(prefix: string): Promise<KeyRecord> {
    const keys = await this.list();
    return onlyKey(
      prefix,
      keys.filter(({ id }) => id.startsWith(prefix)),
    );
  }

  /** @returns whether the key was not revoked until now */
  async revoke(id: string): Promise<boolean> {
    const data = { revokedAt: new Date() };
    const { count } = await this.prisma.apiKey.updateMany({ where: { id, revokedAt: null }, data });
    return count === 1;
  }

  /**
   * Issues a successor with the same name, plan and quotas; the old key expires after the overlap.
   * @param overlapMs how long both keys are valid
   * @param expiresAt when the successor expires; by default when the old key would have
   * @throws {Error} when the key is revoked, expired or rotated already
   */
  rotate(id: string, overlapMs: number, expiresAt: Date | undefined): Promise<IssuedKey> {
    return this.prisma.$transaction(async (tx) => {
      // What is read from here on stays as it is: a key that is being revoked gets no successor.
      await tx.$executeRaw`SELECT FROM api_keys WHERE id = ${id}::uuid FOR UPDATE`;
      const old = recordOf(await tx.apiKey.findUniqueOrThrow({ omit, where: { id } }));
      rejectUnlessRotatable(old);
      const issued = await create(tx, { ...old, expiresAt: expiresAt ?? old.expiresAt });
      const end = new Date(Date.now() + overlapMs);
      // The old key never expires later than it would have.
      const isEarlier = old.expiresAt !== null && old.expiresAt < end;
      const data = { successorId: issued.id, expiresAt: isEarlier ? old.expiresAt : end };
      await tx.apiKey.update({ omit, where: { id }, data });
      return issued;
    });
  }

  async setPlan(id: string, { plan, requestsPerMinute = null, requestsPerDay = null }: PlanChoice): Promise<KeyRecord> {
    const data = { plan, requestsPerMinute, requestsPerDay };
    return recordOf(await this.prisma.apiKey.update({ omit, where: { id }, data }));
  }

  /** Makes every running service end a ban of this key. */
  async notifyUnbanned(id: string): Promise<void> {
    await this.prisma.$executeRaw`SELECT pg_notify(${API_KEY_UNBANNED_CHANNEL}, ${id})`;
  }
}

function recordOf({ id, name, keyPrefix, plan, ...key }: StoredKey): KeyRecord {
  return { id, name, keyPrefix, plan, state: stateOf(key), ...key };
}

async function create(
  tx: Prisma.TransactionClient,
  { name, plan, requestsPerMinute = null, requestsPerDay = null, expiresAt = null }: NewKey,
): Promise<IssuedKey> {
  const key = generateKey();
  const data = { name, plan, requestsPerMinute, requestsPerDay, expiresAt, ...storedFormOf(key) };
  return { key, ...(await tx.apiKey.create({ data, select: { id: true, expiresAt: true } })) };
}

/** What is stored of a key. */
export function storedFormOf(key: string): Pick<ApiKey, 'keyPrefix' | 'keyHash'> {
  return { keyPrefix: key.slice(0, DISPLAY_PREFIX_LENGTH), keyHash: Buffer.from(hashKey(key), 'hex') };
}

function rejectUnlessRotatable({ id, state, successorId }: KeyRecord): void {
  if (state !== 'revoked' && successorId !== null) {
    throw new Error(`The key ${id} is rotated already; rotate its successor ${successorId} instead.`);
  }
  if (state !== 'active') {
    throw new Error(`The key ${id} is ${state}; issue a new one instead.`);
  }
}

/**
 * The only key of those whose ids begin with these characters.
 * @throws {Error} when there is none, or more than one
 */
export function onlyKey<T extends { readonly id: string }>(prefix: string, keys: readonly T[]): T {
  const [only, ...others] = keys;
  if (only === undefined) {
    throw new Error(`There is no key with the id ${prefix}. "petstore keys list" shows all keys.`);
  }
  if (others.length > 0) {
    const ids = keys.map(({ id }) => id).join(', ');
    throw new Error(`The ids of several keys begin with ${prefix} (${ids}); give more characters.`);
  }
  return only;
}

const PREFIX = 'pst_';
const SECRET_LENGTH = 43;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Length of the part of a key that is stored in plain text, to identify the key in lists. */
const DISPLAY_PREFIX_LENGTH = PREFIX.length + 6;

/** Generates a key with the operating system's random number generator. */
export function generateKey(): string {
  const secret = Array.from({ length: SECRET_LENGTH }, () => BASE62.charAt(randomInt(BASE62.length)));
  return PREFIX + secret.join('');
}
