import { generateKey, hashKey } from '../../dist/api-keys/key-format.js';

const NEVER_REACHED = 2_000_000_000;

/** @returns the keys that requests are made with: one without a limit in practice, one to be spent, one unknown */
export function makeKeys() {
  return { unlimited: generateKey(), spent: generateKey(), wrong: generateKey() };
}

/** The spent key may make one request a day, so that it stays spent whatever the minute. */
export async function insertKeys(client, { unlimited, spent }) {
  for (const [name, key, quota] of [
    ['bench unlimited', unlimited, NEVER_REACHED],
    ['bench spent', spent, 1],
  ]) {
    await client.query(
      `INSERT INTO api_keys (name, key_prefix, key_hash, plan, requests_per_minute, requests_per_day)
       VALUES ($1, $2, decode($3, 'hex'), 'enterprise', $4, $4)`,
      [name, key.slice(0, 10), hashKey(key), quota],
    );
  }
}
