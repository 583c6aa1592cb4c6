import { PLANS } from '../plans/plans.js';
import type { DemoKeys } from './demo.js';

/** What a newcomer needs to make a first call. */
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
    'List all orders, then cancel number 1:',
    '',
    `  curl -i -H 'Authorization: Bearer ${keys.free}' ${baseUrl}/v1/store/orders`,
    `  curl -i -H 'Authorization: Bearer ${keys.free}' -X DELETE ${baseUrl}/v1/store/orders/1`,
    '',
    '',
  ];
  return lines.join('\n');
}
