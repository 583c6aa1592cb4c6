import type { Prisma, PrismaClient } from '../database/generated/client.js';
import type { Plan } from '../plans/plans.js';
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
  /** The key that `rotate` issued in place of this one. */
  readonly successorId: string | null;
  readonly lastUsedAt: Date | null;
}

export interface IssuedKey {
  readonly id: string;
  /** The key in plain text. It cannot be read again. */
  readonly key: string;
  readonly expiresAt: Date | null;
}

/** Hands a new key over before it is committed; when that fails, no key is issued. */
export type Deliver = (issued: IssuedKey) => Promise<void>;

export interface PlanChoice {
  readonly plan: Plan;
  /** Given for plans with custom quotas only, which a constraint of the table checks. */
  readonly requestsPerMinute?: number | undefined;
  readonly requestsPerDay?: number | undefined;
}

/** An invalid administrative command. The message is for the operator. */
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
  successorId: true,
  lastUsedAt: true,
} as const;

/** Administers API keys. Database notifications make every change take effect in running services within a second. */
export class ApiKeysAdmin {
  constructor(private readonly prisma: PrismaClient) {}

  async issue(
    { name, expiresAt, ...choice }: PlanChoice & { name: string; expiresAt?: Date | undefined },
    deliver?: Deliver,
  ): Promise<IssuedKey> {
    return this.prisma.$transaction(async (transaction) => {
      const issued = await create(transaction, { name, ...quotaColumns(choice), expiresAt: expiresAt ?? null });
      await deliver?.(issued);
      return issued;
    });
  }

  /** All keys, the newest first. */
  list(): Promise<KeyRecord[]> {
    return this.prisma.apiKey.findMany({ select: RECORD_COLUMNS, orderBy: [{ createdAt: 'desc' }, { id: 'asc' }] });
  }

  /** @returns whether the key was valid until now, and its successor, which stays valid */
  async revoke(id: string): Promise<{ revoked: boolean; successorId: string | null }> {
    const { count } = await this.prisma.apiKey.updateMany({
      where: { id, revokedAt: null },
      data: { revokedAt: new Date() },
    });
    const { successorId } = await this.find(id);
    return { revoked: count > 0, successorId };
  }

  /**
   * Issues a successor with the same name, plan, quotas and expiry; the old key expires after the overlap.
   * @param overlapMs how long both keys are valid
   * @throws {KeyAdministrationError} when the key is revoked, expired or rotated already
   */
  async rotate(id: string, overlapMs: number, deliver?: Deliver): Promise<IssuedKey> {
    return this.prisma.$transaction(async (transaction) => {
      // What is read from here on stays as it is: a key that is being revoked gets no successor.
      await transaction.$queryRaw`SELECT id::text FROM api_keys WHERE id = ${id}::uuid FOR UPDATE`;
      const old = await findKey(transaction, id);
      const now = Date.now();
      rejectUnlessRotatable(old, now);
      const { name, plan, requestsPerMinute, requestsPerDay, expiresAt } = old;
      const issued = await create(transaction, { name, plan, requestsPerMinute, requestsPerDay, expiresAt });
      const endOfOverlap = new Date(now + overlapMs);
      await transaction.apiKey.update({
        where: { id },
        data: {
          successorId: issued.id,
          expiresAt: expiresAt !== null && expiresAt < endOfOverlap ? expiresAt : endOfOverlap,
        },
      });
      await deliver?.(issued);
      return issued;
    });
  }

  async setPlan(id: string, choice: PlanChoice): Promise<KeyRecord> {
    const [record] = await this.prisma.apiKey.updateManyAndReturn({
      where: { id },
      data: quotaColumns(choice),
      select: RECORD_COLUMNS,
    });
    return existing(record, id);
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
  find(id: string): Promise<KeyRecord> {
    return findKey(this.prisma, id);
  }
}

async function findKey(client: Prisma.TransactionClient, id: string): Promise<KeyRecord> {
  return existing(await client.apiKey.findUnique({ where: { id }, select: RECORD_COLUMNS }), id);
}

function existing(record: KeyRecord | null | undefined, id: string): KeyRecord {
  if (record == null) {
    throw new KeyAdministrationError(noKey(id));
  }
  return record;
}

function rejectUnlessRotatable({ id, revokedAt, successorId, expiresAt }: KeyRecord, nowMs: number): void {
  if (revokedAt === null && successorId !== null) {
    throw new KeyAdministrationError(`The key ${id} is rotated already; rotate its successor ${successorId} instead.`);
  }
  if (revokedAt !== null || (expiresAt !== null && expiresAt.getTime() <= nowMs)) {
    const state = revokedAt === null ? 'expired' : 'revoked';
    throw new KeyAdministrationError(`The key ${id} is ${state}; issue a new one instead.`);
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

async function create(
  client: Prisma.TransactionClient,
  data: Omit<Prisma.ApiKeyCreateInput, 'keyPrefix' | 'keyHash'>,
): Promise<IssuedKey> {
  const key = generateKey();
  const keyHash = Uint8Array.from(Buffer.from(hashKey(key), 'hex'));
  const { id, expiresAt } = await client.apiKey.create({
    data: { ...data, keyPrefix: key.slice(0, DISPLAY_PREFIX_LENGTH), keyHash },
    select: { id: true, expiresAt: true },
  });
  return { id, key, expiresAt };
}

function quotaColumns({
  plan,
  requestsPerMinute,
  requestsPerDay,
}: PlanChoice): Pick<KeyRecord, 'plan' | 'requestsPerMinute' | 'requestsPerDay'> {
  return { plan, requestsPerMinute: requestsPerMinute ?? null, requestsPerDay: requestsPerDay ?? null };
}
