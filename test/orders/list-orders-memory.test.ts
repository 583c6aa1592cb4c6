import { readFileSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { seedOrders } from '../../src/orders/seed-orders.js';
import { requestRaw } from '../helpers/raw-http.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';

const ORDERS = 1_000_000;
/** Before Node 22 only the garbage collector frees the memory of a buffer, some time after it is used. */
const RISE_MAX_MIB = 'transfer' in ArrayBuffer.prototype ? 40 : 72;
const FIELD = Buffer.from('"id":');

// So little memory for pieces that the rest is read at the pace of the client.
const context = useServiceProcess({ LIST_CACHE_MB: '4' });
beforeAll(async () => {
  const client = await context.database.db.connect();
  await seedOrders(client, ORDERS).finally(() => client.release());
});

/** The peak resident memory of the process (proc(5), `VmHWM`), in MiB. */
function peakMiB(): number {
  const status = readFileSync(`/proc/${context.service.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
}

/** A list that PostgreSQL cannot continue to send, because the service does not read its rows. */
const BLOCKED_LIST = `
  SELECT FROM pg_stat_activity
  WHERE datname = current_database() AND query LIKE 'COPY %' AND state = 'active' AND wait_event = 'ClientWrite'`;

/**
 * Reads the first bytes of the list, waits until PostgreSQL is blocked, and then reads the rest without storing it.
 * @returns the number of orders, and the start and the end of the list
 */
async function readList(headers: Record<string, string>): Promise<{ orders: number; start: string; end: string }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(`${context.service.baseUrl}/v1/store/orders`, { headers }, resolve).on('error', reject);
  });
  let [orders, start, end] = [0, '', Buffer.alloc(0)];
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (start === '') {
      start = chunk.subarray(0, 20).toString();
      await waitFor(
        async () => (await context.database.db.query(BLOCKED_LIST)).rowCount === 1,
        'PostgreSQL is blocked',
      );
    }
    // The previous chunk may end with a part of the field name, never with all of it.
    const bytes = Buffer.concat([end.subarray(-(FIELD.length - 1)), chunk]);
    for (let at = bytes.indexOf(FIELD); at !== -1; at = bytes.indexOf(FIELD, at + 1)) {
      orders++;
    }
    end = Buffer.from(Buffer.concat([end, chunk]).subarray(-60));
  }
  expect(response.complete).toBe(true);
  return { orders, start, end: end.toString() };
}

it('a list of a million orders is complete, and increases the memory of the service by a bounded amount', async () => {
  const { service, key } = context;
  await requestRaw(service.baseUrl, { method: 'DELETE', path: '/store/orders/404404404', key });
  await requestRaw(service.baseUrl, { key, headers: { 'If-None-Match': '*' } });
  // Resets the peak, which includes the start of the process (proc(5), `clear_refs`).
  writeFileSync(`/proc/${service.pid}/clear_refs`, '5');
  const before = peakMiB();
  const { orders, start, end } = await readList({ Authorization: `Bearer ${key}` });
  const after = peakMiB();
  expect(orders).toBe(ORDERS);
  expect(start).toMatch(/^\[\{"id":1,"petId":/);
  expect(end).toMatch(/,"complete":(?:true|false)\}\]$/);
  expect(before).toBeGreaterThan(20);
  expect(after - before).toBeLessThanOrEqual(RISE_MAX_MIB);
});
