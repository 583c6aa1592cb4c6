import { execFile } from 'node:child_process';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PetstoreClient } from '../../examples/typescript-client/src/client.ts';
import { ApiError, IncompleteListError } from '../../examples/typescript-client/src/errors.ts';
import type { Order } from '../../examples/typescript-client/src/order-stream.ts';
import type { RetryOptions } from '../../examples/typescript-client/src/retry.ts';
import { seedOrders } from '../../src/orders/seed-orders.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { listen } from '../helpers/listen.js';
import { type TestService, useTestService } from '../helpers/test-service.js';

const CLIENT = join(__dirname, '..', '..', 'examples', 'typescript-client');
const INT64_MAX = 2n ** 63n - 1n;

const context = useTestService();
let service: TestService;
let key: string;
beforeEach(async () => {
  ({ service, key } = context);
  await service.db.query('TRUNCATE orders');
});

/** Waits by moving the service's clock, and keeps how long it waited. */
function clientOf(
  apiKey = key,
  retry: Partial<RetryOptions> = {},
  baseUrl = service.baseUrl,
  timeoutMs = 60_000,
): { client: PetstoreClient; waitsMs: number[] } {
  const waitsMs: number[] = [];
  const sleep = (milliseconds: number): Promise<void> => {
    waitsMs.push(milliseconds);
    service.clock.advance(milliseconds);
    return Promise.resolve();
  };
  const client = new PetstoreClient({
    baseUrl: `${baseUrl}/v1`,
    apiKey,
    timeoutMs,
    retry: { now: () => service.clock.now(), random: () => 0.5, sleep, ...retry },
  });
  return { client, waitsMs };
}

async function read(orders: AsyncIterable<Order> | undefined): Promise<Order[]> {
  const all: Order[] = [];
  for await (const order of orders ?? []) {
    all.push(order);
  }
  return all;
}

describe('the TypeScript client', () => {
  it('has types that match the committed openapi.json', async () => {
    const check = promisify(execFile)(process.execPath, [join(CLIENT, 'generate-types.mjs'), '--check']);
    await expect(check).resolves.toMatchObject({ stderr: '' });
  });

  it('streams a list of 20,000 orders with exact ids', async () => {
    const connection = await service.db.connect();
    await seedOrders(connection, 20_000).finally(() => {
      connection.release();
    });
    await insertOrder(service.db, { id: String(INT64_MAX), pet_id: String(-INT64_MAX), ship_date: null });
    const list = await clientOf().client.listOrders();
    const orders = await read(list?.orders);
    expect(orders).toHaveLength(20_001);
    expect(orders[41]?.id).toBe(42n);
    expect(orders.at(-1)).toEqual({ id: INT64_MAX, petId: -INT64_MAX, quantity: 1, complete: false });
  });

  it('has an etag when the list has been read, and returns undefined while it has not changed since', async () => {
    const { client } = clientOf();
    const id = await insertOrder(service.db);
    const list = await client.listOrders();
    expect(list?.etag).toBeUndefined();
    expect(await read(list?.orders)).toHaveLength(1);
    const etag = list?.etag ?? '';
    await client.cancelOrder(BigInt(id));
    expect(await client.listOrders({ etag })).toBeUndefined();
    await insertOrder(service.db);
    expect(await client.listOrders({ etag })).toBeDefined();
  });

  it('returns a distinct outcome for a pending, cancelled, shipped and missing order', async () => {
    const { client } = clientOf();
    const pending = await insertOrder(service.db, { id: String(INT64_MAX) });
    const shipped = await insertOrder(service.db, { status: 'shipped' });
    expect(await client.cancelOrder(BigInt(pending))).toBe('cancelled');
    expect(await statusOf(service.db, pending)).toBe('cancelled');
    expect(await client.cancelOrder(BigInt(pending))).toBe('already_cancelled');
    expect(await client.cancelOrder(BigInt(shipped))).toBe('already_shipped');
    expect(await client.cancelOrder(404_404n)).toBe('not_found');
  });

  it('waits for Retry-After plus jitter after 429, then succeeds', async () => {
    const small = await insertKey(service.db, { requests_per_minute: 1 });
    const { client, waitsMs } = clientOf(small.key);
    await insertOrder(service.db);
    await read((await client.listOrders())?.orders);
    const secondsLeft = 60 - ((service.clock.now() / 1_000) % 60);
    expect(await read((await client.listOrders())?.orders)).toHaveLength(1);
    // Half of the first bound, a second.
    expect(waitsMs).toEqual([Math.ceil(secondsLeft) * 1_000 + 500]);
  });

  it('throws without retrying when Retry-After is too long or the error is final', async () => {
    const small = await insertKey(service.db, { requests_per_minute: 9, requests_per_day: 1 });
    const limited = clientOf(small.key);
    await limited.client.cancelOrder(1n);
    await expect(limited.client.cancelOrder(1n)).rejects.toMatchObject({ code: 'rate_limit_exceeded', status: 429 });
    const unknown = clientOf('pst_nobody');
    await expect(unknown.client.listOrders()).rejects.toMatchObject({ code: 'invalid_api_key', status: 401 });
    expect([limited.waitsMs, unknown.waitsMs]).toEqual([[], []]);
  });
});

describe('the TypeScript client with a faulty server', () => {
  let server: Server | undefined;
  afterEach(() => {
    server?.closeAllConnections();
    server?.close();
  });

  async function clientOfServer(
    respond: (response: ServerResponse) => void,
    timeoutMs?: number,
  ): Promise<ReturnType<typeof clientOf>> {
    server = createServer((_req, res) => {
      respond(res);
    });
    return clientOf(key, { attempts: 4, random: () => 1 }, `http://127.0.0.1:${await listen(server)}`, timeoutMs);
  }

  it.each<[string, (response: ServerResponse) => void]>([
    ['an interrupted connection', (res) => res.write('[{"id":1},{"id', () => res.destroy())],
    ['a response that ends early', (res) => res.end('[{"id":1},{"id":2}')],
    ['a response that stops', (res) => res.write('[{"id":1},{"id')],
  ])('throws IncompleteListError and has no etag for %s', async (_what, respond) => {
    const { client } = await clientOfServer((res) => {
      respond(res.setHeader('ETag', 'W/"1"'));
    }, 500);
    const list = await client.listOrders();
    await expect(read(list?.orders)).rejects.toThrow(IncompleteListError);
    expect(list?.etag).toBeUndefined();
  });

  it('gives up after the maximum number of attempts, doubling the wait each time', async () => {
    const { client, waitsMs } = await clientOfServer((res) => res.writeHead(503).end('busy'));
    await expect(client.listOrders()).rejects.toThrow(ApiError);
    expect(waitsMs).toEqual([1_000, 2_000, 4_000]);
  });

  it('repeats a cancel when the connection is reset or the response does not come in time', async () => {
    let requests = 0;
    const { client, waitsMs } = await clientOfServer((res) => {
      requests++;
      if (requests === 1) {
        res.destroy();
      } else if (requests === 3) {
        res.writeHead(204).end();
      }
    }, 500);
    expect(await client.cancelOrder(1n)).toBe('cancelled');
    expect(waitsMs).toHaveLength(2);
  });
});
