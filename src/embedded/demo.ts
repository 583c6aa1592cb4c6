import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { ApiKeysAdmin } from '../api-keys/api-keys.admin.js';
import { hashKey } from '../api-keys/key-format.js';
import { connectPrisma } from '../database/connect-prisma.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS, PLANS } from '../plans/plans.js';
import { seedOrders } from '../orders/seed-orders.js';
import { EMBEDDED_FOLDER } from './embedded-service.js';

const DEMO_ORDERS = 60;
const DEMO_KEYS_FILE = join(EMBEDDED_FOLDER, 'demo-keys.json');
const DEMO_ENTERPRISE_QUOTAS = { requestsPerMinute: 5_000, requestsPerDay: 1_000_000 };

export type DemoKeys = Readonly<Record<Plan, string>>;

/**
 * Inserts sample orders into an empty table and issues one API key per plan.
 * @returns the same keys after a restart
 */
export async function prepareDemo(databaseUrl: string): Promise<DemoKeys> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    await seedOrders(client, DEMO_ORDERS);
    const keys = readKeys();
    return keys !== undefined && (await allExist(client, keys)) ? keys : await issueKeys(databaseUrl);
  } finally {
    await client.end();
  }
}

/** What a developer needs for the first requests. */
export function demoBanner(baseUrl: string, keys: DemoKeys, docsEnabled: boolean): string {
  const lines = [
    '',
    'The store orders service is running on an embedded PostgreSQL (data in .data/, Ctrl-C stops both).',
    '',
    `  API         ${baseUrl}/v1`,
    ...(docsEnabled ? [`  Swagger UI  ${baseUrl}/docs`] : []),
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

/** A missing or incomplete file counts as no keys: new ones are issued. */
function readKeys(): DemoKeys | undefined {
  try {
    const keys = JSON.parse(readFileSync(DEMO_KEYS_FILE, 'utf8')) as Partial<DemoKeys> | null;
    return PLANS.every((plan) => typeof keys?.[plan] === 'string') ? (keys as DemoKeys) : undefined;
  } catch {
    return undefined;
  }
}

async function allExist(client: pg.Client, keys: DemoKeys): Promise<boolean> {
  const hashes = PLANS.map((plan) => hashKey(keys[plan]));
  const { rows } = await client.query<{ found: number }>(
    "SELECT count(*)::integer AS found FROM api_keys WHERE encode(key_hash, 'hex') = ANY($1)",
    [hashes],
  );
  return rows[0]?.found === PLANS.length;
}

async function issueKeys(databaseUrl: string): Promise<DemoKeys> {
  const connection = connectPrisma(databaseUrl);
  try {
    const admin = new ApiKeysAdmin(connection.prisma);
    const keys: Partial<Record<Plan, string>> = {};
    for (const plan of PLANS) {
      const quotas = PLAN_QUOTAS[plan] === CUSTOM_QUOTAS ? DEMO_ENTERPRISE_QUOTAS : {};
      keys[plan] = (await admin.issue({ name: `demo ${plan}`, plan, ...quotas })).key;
    }
    writeFileSync(DEMO_KEYS_FILE, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 });
    return keys as DemoKeys;
  } finally {
    await connection.close();
  }
}
