import { readFileSync, writeFileSync } from 'node:fs';
import { DISPLAY_PREFIX_LENGTH, generateKey, hashKey, isWellFormedKey } from '../../api-keys/key-format.js';
import { openClient } from '../../database/open-client.js';
import { sessionSettings } from '../../database/session-settings.js';
import { seedOrders } from '../../orders/seed-orders.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS, PLANS } from '../../plans/plans.js';

const DEMO_ORDERS = 60;
const ENTERPRISE_QUOTAS = [5_000, 1_000_000];

const INSERT_KEY = `
  INSERT INTO api_keys (name, plan, key_prefix, key_hash, requests_per_minute, requests_per_day)
  VALUES ($1, $2, $3, decode($4, 'hex'), $5, $6) ON CONFLICT (key_hash) DO NOTHING`;

export type DemoKeys = Readonly<Record<Plan, string>>;

/**
 * Inserts sample orders and one API key per plan, unless they are there.
 * @param keysFile holds the keys, which stay the same after a restart
 */
export async function prepareDemo(databaseUrl: string, keysFile: string): Promise<DemoKeys> {
  const keys = readKeys(keysFile) ?? createKeys(keysFile);
  const client = await openClient(databaseUrl);
  try {
    await client.query(sessionSettings());
    await seedOrders(client, DEMO_ORDERS);
    for (const plan of PLANS) {
      const key = keys[plan];
      const quotas = PLAN_QUOTAS[plan] === CUSTOM_QUOTAS ? ENTERPRISE_QUOTAS : [null, null];
      const stored = [key.slice(0, DISPLAY_PREFIX_LENGTH), hashKey(key)];
      await client.query(INSERT_KEY, [`demo ${plan}`, plan, ...stored, ...quotas]);
    }
    return keys;
  } finally {
    await client.end();
  }
}

/** What a developer needs for the first requests. */
export function demoBanner(baseUrl: string, databaseUrl: string, keys: DemoKeys, docsEnabled: boolean): string {
  const lines = [
    '',
    'The store orders service is running on an embedded PostgreSQL (data in .data/, Ctrl-C stops both).',
    '',
    `  API         ${baseUrl}/v1`,
    ...(docsEnabled ? [`  Swagger UI  ${baseUrl}/docs (with the free key)`] : []),
    `  Database    ${databaseUrl}`,
    '',
    ...PLANS.map((plan) => `  ${`${plan} key`.padEnd(15)} ${keys[plan]}`),
    '',
    'List all orders, then cancel order 1:',
    '',
    `  curl -i -H 'Authorization: Bearer ${keys.free}' ${baseUrl}/v1/store/orders`,
    `  curl -i -H 'Authorization: Bearer ${keys.free}' -X DELETE ${baseUrl}/v1/store/orders/1`,
    '',
    '',
  ];
  return lines.join('\n');
}

/** A missing or incomplete file counts as no keys. */
function readKeys(file: string): DemoKeys | undefined {
  try {
    const keys = JSON.parse(readFileSync(file, 'utf8')) as DemoKeys;
    return PLANS.every((plan) => isWellFormedKey(keys[plan])) ? keys : undefined;
  } catch {
    return undefined;
  }
}

function createKeys(file: string): DemoKeys {
  const keys = Object.fromEntries(PLANS.map((plan) => [plan, generateKey()])) as DemoKeys;
  writeFileSync(file, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 });
  return keys;
}
