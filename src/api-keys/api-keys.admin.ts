import { randomInt } from 'node:crypto';
import type pg from 'pg';
import { inTransaction } from '../database/in-transaction.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { onlyRow } from '../database/only-row.js';
import type { Plan } from '../plans/plans.js';
import { hashKey } from './key-format.js';

export type KeyState = 'active' | 'expired' | 'revoked';

/** A key as an administrator sees it, without the key itself, which is shown once when it is issued. */
export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly keyPrefix: string;
  readonly plan: Plan;
  readonly state: KeyState;
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

/** The {@link KeyState} of a row. */
export const STATE = `CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END`;

const RECORD = `
  id, name, key_prefix AS "keyPrefix", plan::text, ${STATE} AS state,
  requests_per_minute AS "requestsPerMinute", requests_per_day AS "requestsPerDay", created_at AS "createdAt",
  expires_at AS "expiresAt", revoked_at AS "revokedAt", successor_id AS "successorId", last_used_at AS "lastUsedAt"`;

const INSERT_KEY = `
  INSERT INTO api_keys (name, plan, requests_per_minute, requests_per_day, expires_at, key_prefix, key_hash)
  VALUES ($1, $2, $3, $4, $5, $6, decode($7, 'hex')) RETURNING id, expires_at AS "expiresAt"`;

/** The old key never expires later than it would have. */
const END_AFTER_OVERLAP = 'UPDATE api_keys SET successor_id = $2, expires_at = least(expires_at, $3) WHERE id = $1';

const REVOKE = `
  UPDATE api_keys SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL RETURNING successor_id AS "successorId"`;

const UPDATE_PLAN = `
  UPDATE api_keys SET plan = $2, requests_per_minute = $3, requests_per_day = $4 WHERE id = $1 RETURNING ${RECORD}`;

/** Administers API keys. Database notifications make every change take effect in running services within a second. */
export class ApiKeysAdmin {
  /** @param db a connection outside a transaction */
  constructor(private readonly db: pg.ClientBase) {}

  issue(key: NewKey, deliver: Deliver): Promise<void> {
    return inTransaction(this.db, async () => deliver(await this.#create(key)));
  }

  /** All keys, the newest first. */
  list(): Promise<KeyRecord[]> {
    return this.#select('ORDER BY created_at DESC, id');
  }

  /**
   * The key whose id begins with these characters, in lower case.
   * @throws {Error} when there is none, or more than one
   */
  async find(prefix: string): Promise<KeyRecord> {
    return onlyKey(prefix, await this.#select("WHERE id::text LIKE $1 || '%'", prefix));
  }

  /** @returns whether the key was valid until now, and its successor, which stays valid */
  async revoke(id: string): Promise<{ revoked: boolean; successorId: string | null }> {
    const { rows } = await this.db.query<Pick<KeyRecord, 'successorId'>>(REVOKE, [id]);
    return { revoked: rows.length === 1, successorId: (rows[0] ?? (await this.find(id))).successorId };
  }

  /**
   * Issues a successor with the same name, plan and quotas; the old key expires after the overlap.
   * @param overlapMs how long both keys are valid
   * @param expiresAt when the successor expires; by default when the old key would have
   * @throws {Error} when the key is revoked, expired or rotated already
   */
  rotate(id: string, overlapMs: number, expiresAt: Date | undefined, deliver: Deliver): Promise<void> {
    return inTransaction(this.db, async () => {
      // What is read from here on stays as it is: a key that is being revoked gets no successor.
      const old = onlyRow(await this.#select('WHERE id = $1 FOR UPDATE', id));
      rejectUnlessRotatable(old);
      const issued = await this.#create({ ...old, expiresAt: expiresAt ?? old.expiresAt });
      await this.db.query(END_AFTER_OVERLAP, [id, issued.id, new Date(Date.now() + overlapMs)]);
      await deliver(issued);
    });
  }

  async setPlan(id: string, { plan, requestsPerMinute, requestsPerDay }: PlanChoice): Promise<KeyRecord> {
    return onlyRow((await this.db.query<KeyRecord>(UPDATE_PLAN, [id, plan, requestsPerMinute, requestsPerDay])).rows);
  }

  /** Makes every running service end a ban of this key. */
  async notifyUnbanned(id: string): Promise<void> {
    await this.db.query('SELECT pg_notify($1, $2)', [API_KEY_UNBANNED_CHANNEL, id]);
  }

  async #select(condition: string, ...values: readonly string[]): Promise<KeyRecord[]> {
    return (await this.db.query<KeyRecord>(`SELECT ${RECORD} FROM api_keys ${condition}`, [...values])).rows;
  }

  async #create({ name, plan, requestsPerMinute, requestsPerDay, expiresAt }: NewKey): Promise<IssuedKey> {
    const key = generateKey();
    const values = [name, plan, requestsPerMinute, requestsPerDay, expiresAt, key.slice(0, DISPLAY_PREFIX_LENGTH)];
    const { rows } = await this.db.query<Omit<IssuedKey, 'key'>>(INSERT_KEY, [...values, hashKey(key)]);
    return { key, ...onlyRow(rows) };
  }
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
export const DISPLAY_PREFIX_LENGTH = PREFIX.length + 6;

/** Generates a key with the operating system's random number generator. */
export function generateKey(): string {
  const secret = Array.from({ length: SECRET_LENGTH }, () => BASE62.charAt(randomInt(BASE62.length)));
  return PREFIX + secret.join('');
}
