import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { ApiKeysAdmin } from '../api-keys/api-keys.admin.js';
import { hashKey } from '../api-keys/key-format.js';
import { connectPrisma } from '../database/prisma.service.js';
import { CUSTOM_QUOTAS, type Plan, PLAN_QUOTAS, PLANS } from '../plans/plans.js';
import { seedOrders } from '../orders/seed-orders.js';
import { EMBEDDED_FOLDER } from './embedded-service.js';

const DEMO_ORDERS = 60;
const DEMO_KEYS_FILE = join(EMBEDDED_FOLDER, 'demo-keys.json');
const DEMO_ENTERPRISE_QUOTAS = { requestsPerMinute: 5_000, requestsPerDay: 1_000_000 };

export type DemoKeys = Readonly<Record<Plan, string>>;

/** Orders to look at and one key per plan, the same after every restart. */
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

function readKeys(): DemoKeys | undefined {
  return existsSync(DEMO_KEYS_FILE) ? (JSON.parse(readFileSync(DEMO_KEYS_FILE, 'utf8')) as DemoKeys) : undefined;
}

async function allExist(client: pg.Client, keys: DemoKeys): Promise<boolean> {
  const hashes = PLANS.map((plan) => hashKey(keys[plan]));
  const { rows } = await client.query<{ known: number }>(
    "SELECT count(*)::integer AS known FROM api_keys WHERE encode(key_hash, 'hex') = ANY($1)",
    [hashes],
  );
  return rows[0]?.known === PLANS.length;
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
