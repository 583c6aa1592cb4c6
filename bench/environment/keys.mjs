import { generateKey } from '../../dist/api-keys/api-keys.admin.js';
import { hashKey } from '../../dist/api-keys/key-format.js';

const NEVER_REACHED = 2_000_000_000;

/** @returns three keys: one without a practical limit, one that may make a single request a day, one that is not stored */
export function makeKeys() {
  return { unlimited: generateKey(), limited: generateKey(), unknown: generateKey() };
}

/** The limited key may make one request a day, so that it stays over its limit in every minute. */
export async function insertKeys(client, { unlimited, limited }) {
  for (const [name, key, quota] of [
    ['bench unlimited', unlimited, NEVER_REACHED],
    ['bench limited', limited, 1],
  ]) {
    await client.query(
      `INSERT INTO api_keys (name, key_prefix, key_hash, plan, requests_per_minute, requests_per_day)
       VALUES ($1, $2, decode($3, 'hex'), 'enterprise', $4, $4)`,
      [name, key.slice(0, 10), hashKey(key), quota],
    );
  }
}
