import { createHmac } from 'node:crypto';
import { storedFormOf } from '../../api-keys/api-keys.admin.js';
import { sessionSettings } from '../../database/session-settings.js';
import { seedOrders } from '../../orders/seed-orders.js';
import { type Plan, PLANS } from '../../plans/plans.js';

const DEMO_ORDERS = 60;
const ENTERPRISE_QUOTAS = { requestsPerMinute: 5_000, requestsPerDay: 1_000_000 };

type DemoKeys = Readonly<Record<Plan, string>>;

export interface Demo {
  readonly keys: DemoKeys;
  /** An order to be cancelled in an example: a pending one while there is one. */
  readonly exampleId: bigint;
}

/** Inserts sample orders and one API key per plan, unless they are there. */
export async function prepareDemo(databaseUrl: string): Promise<Demo> {
  const keys = demoKeysOf(new URL(databaseUrl).password);
  // Every command loads this file; the client is for this function only.
  const { openPrisma } = await import('../../database/open-prisma.js');
  const { prisma, db, end } = await openPrisma(databaseUrl, sessionSettings());
  try {
    await seedOrders(db, DEMO_ORDERS);
    await prisma.apiKey.createMany({
      data: PLANS.map((plan) => ({
        name: `demo ${plan}`,
        plan,
        ...storedFormOf(keys[plan]),
        ...(plan === 'enterprise' && ENTERPRISE_QUOTAS),
      })),
      skipDuplicates: true,
    });
    const pending = await prisma.order.findFirst({
      where: { status: 'pending' },
      orderBy: { id: 'asc' },
      select: { id: true },
    });
    return { keys, exampleId: pending?.id ?? 1n };
  } finally {
    await end();
  }
}

/** What a developer needs for the first requests. */
export function demoBanner(
  baseUrl: string,
  databaseUrl: string,
  { keys, exampleId }: Demo,
  docsEnabled: boolean,
): string {
  const curl = `  curl -i -H 'Authorization: Bearer ${keys.free}'`;
  const orders = `${baseUrl}/v1/store/orders`;
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
    `List all orders, then cancel order ${exampleId}:`,
    '',
    `${curl} ${orders}`,
    `${curl} -X DELETE ${orders}/${exampleId}`,
    '',
    '',
  ];
  return lines.join('\n');
}

/** Keys that stay the same after a restart, without being stored: computing them takes the password of the database. */
function demoKeysOf(password: string): DemoKeys {
  const secretOf = (plan: Plan): string => createHmac('sha256', password).update(plan).digest('base64url');
  return Object.fromEntries(PLANS.map((plan) => [plan, `pst_${secretOf(plan).replace(/[-_]/g, 'x')}`])) as DemoKeys;
}
