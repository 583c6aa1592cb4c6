import type pg from 'pg';
import { type Finding, ok, warning } from './finding.js';

const KEYS_LISTED = 5;

const EXPIRING_KEYS = `
  SELECT id, expires_at AS "expiresAt", count(*) OVER ()::integer AS count FROM api_keys
  WHERE revoked_at IS NULL AND expires_at > now() AND expires_at <= now() + interval '30 days'
  ORDER BY expires_at LIMIT ${KEYS_LISTED}`;

interface ExpiringKey {
  readonly id: string;
  readonly expiresAt: Date;
  /** Of all keys that expire, of which the first ones are listed. */
  readonly count: number;
}

export async function readExpiringKeys(db: pg.Client): Promise<ExpiringKey[]> {
  return (await db.query<ExpiringKey>(EXPIRING_KEYS)).rows;
}

export function expiringKeysFinding(keys: readonly ExpiringKey[]): Finding {
  const count = keys[0]?.count ?? 0;
  return count === 0
    ? ok('none within 30 days')
    : warning(
        `${count} ${count === 1 ? 'key expires' : 'keys expire'} within 30 days`,
        'Issue successors with "petstore keys rotate ID" and hand them to their holders.',
        [
          ...keys.map(({ id, expiresAt }) => `${id} on ${expiresAt.toISOString().slice(0, 10)}`),
          ...(count > keys.length ? [`and ${count - keys.length} more: petstore keys list`] : []),
        ],
      );
}
