import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { lockOrder, lockTable, lockWaits, untilLockWaits } from '../helpers/lock-waits.js';
import { createTestDatabase, type TestDatabase, useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const UNCOMPRESSED_MAX = 64;
const BEGUN_PER_TURN = 32;
/** How long a list waits for its turn. */
const LIST_WAIT_MS = 4_000;
/** A list waits for a build that began before it and for its own, each for a lock timeout of 2 s. One after the other they would take 128 s. */
const LOCKED_MAX_MS = 20_000;
/** With fewer, not all of their requests would be read before some have their response. */
const CLIENTS = 8;

/** With orders of about 15 MB: more than the buffers of both ends of a connection hold. */
const large = useTestDatabase();
beforeAll(async () => {
  await large.db.query('INSERT INTO orders (pet_id, quantity) SELECT n, 1 FROM generate_series(1, 200000) AS n');
});

/**
 * Runs a test on a service of its own, which has the list in memory, so that none needs a database connection. All tests run at the same
 * time, because they wait for timeouts.
 */
async function withService(
  database: TestDatabase,
  test: (service: TestService, key: string) => Promise<void>,
): Promise<void> {
  const service = await startTestService({ database, environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });
  try {
    const { key } = await insertKey(database.db);
    await (await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'gzip' })).text();
    await test(service, key);
  } finally {
    await service.stop();
  }
}

/** Asks for a list and leaves. */
async function statusOfList({ baseUrl }: TestService, key: string, encoding: string): Promise<number> {
  const response = await listOrders(baseUrl, key, { 'Accept-Encoding': encoding, Connection: 'close' });
  await response.body?.cancel();
  return response.status;
}

it.concurrent(
  'many lists that their clients do not read, also behind a pending response, stop none of other keys',
  () =>
    withService(large, async (service, key) => {
      const { key: compressing } = await insertKey(service.db);
      const release = await lockOrder(service.db, '1');
      const crowds = [
        { caller: key, encoding: 'identity', clients: CLIENTS, listsEach: UNCOMPRESSED_MAX / CLIENTS },
        { caller: compressing, encoding: 'gzip', clients: 137, listsEach: 15 },
      ];
      const sockets = crowds.flatMap(({ caller, encoding, clients, listsEach }) => {
        const waiting = requestText('DELETE', '/v1/store/orders/1', { key: caller });
        const lists = requestText('GET', '/v1/store/orders', {
          key: caller,
          headers: [`Accept-Encoding: ${encoding}`],
        });
        return Array.from({ length: clients }, () => {
          const socket = connect(service.port, '127.0.0.1').on('error', () => undefined);
          socket.write(waiting + lists.repeat(listsEach));
          return socket;
        });
      });
      try {
        await untilLockWaits(service.db);
        const slotsAreHeld = async (caller: string, encoding: string): Promise<void> => {
          await waitFor(
            async () => (await statusOfList(service, caller, encoding)) === 503,
            `the ${encoding} slots are held`,
          );
        };
        await Promise.all([slotsAreHeld(key, 'identity'), slotsAreHeld(compressing, 'gzip')]);
        const { key: other } = await insertKey(service.db);
        expect(await statusOfList(service, key, 'gzip')).toBe(200);
        expect(await statusOfList(service, other, 'gzip')).toBe(200);
        expect(await statusOfList(service, other, 'identity')).toBe(200);
      } finally {
        sockets.forEach((socket) => socket.destroy());
        await release();
      }
      await waitFor(async () => (await statusOfList(service, key, 'identity')) === 200, 'the slots are free again');
      await waitFor(
        async () => (await statusOfList(service, compressing, 'gzip')) === 200,
        'those of compressed lists, too',
      );
    }),
);

it.concurrent(
  'uncompressed lists of one key that wait for their turn leave the requests that a proxy forwards to others',
  () =>
    withService(large, async (service, key) => {
      const list = requestText('GET', '/v1/store/orders', { key, headers: ['Accept-Encoding: identity'] });
      const sockets: Socket[] = [];
      let isDone = false;
      // Each client asks again a moment after a rejection, so that others wait when the first ones have given up.
      const ask = (): void => {
        if (isDone) {
          return;
        }
        const socket = connect(service.port, '127.0.0.1').on('error', () => undefined);
        sockets.push(socket);
        socket.write(list);
        socket.once('data', (head: Buffer) => {
          socket.pause();
          if (head.toString().startsWith('HTTP/1.1 503 ')) {
            socket.destroy();
            setTimeout(ask, 250);
          }
        });
      };
      try {
        // An eighth of MAX_CONNECTIONS may wait for their turn, and almost as many for a place among them: longer than a list does.
        Array.from({ length: 250 }).forEach(ask);
        // Side by side: they hold it for ten seconds, and one that is served late would be the last within them.
        const asked: Promise<unknown>[] = [];
        const statuses: number[] = [];
        await waitFor(async () => {
          asked.push(statusOfList(service, key, 'gzip').then((status) => statuses.push(status)));
          await delay(250);
          return statuses.includes(503);
        }, 'those that wait hold the share of their key');
        const { key: other } = await insertKey(service.db);
        expect(await statusOfList(service, other, 'gzip')).toBe(200);
        expect(await statusOfList(service, other, 'identity')).toBe(200);
        await Promise.all(asked);
      } finally {
        isDone = true;
        sockets.forEach((socket) => socket.destroy());
      }
      await waitFor(async () => (await statusOfList(service, key, 'gzip')) === 200, 'the slots are free again');
    }),
);

it.concurrent(
  'further lists of a key than may wait for their turn do not wait: a proxy would forward no cancel meanwhile',
  () =>
    withService(large, async (service, key) => {
      const list = requestText('GET', '/v1/store/orders', { key, headers: ['Accept-Encoding: identity'] });
      // A quarter of MAX_CONNECTIONS, and more.
      const sockets = Array.from({ length: 300 }, () =>
        connect(service.port, '127.0.0.1').on('error', () => undefined),
      );
      const rejections: number[] = [];
      try {
        for (const socket of sockets) {
          socket.write(list);
          socket.once('data', (head: Buffer) => {
            socket.pause();
            if (head.toString().startsWith('HTTP/1.1 503 ')) {
              rejections.push(performance.now());
            }
          });
        }
        const afterFirstMs = (): number => rejections.at(-1)! - rejections[0]!;
        await waitFor(
          () => rejections.length > 1 && afterFirstMs() > LIST_WAIT_MS / 2,
          'others are rejected after a wait',
        );
        // The first ones were not: whichever waits began to wait before them.
        expect(rejections.filter((at) => at - rejections[0]! < LIST_WAIT_MS / 2).length).toBeGreaterThan(1);
      } finally {
        sockets.forEach((socket) => socket.destroy());
      }
      await waitFor(async () => (await statusOfList(service, key, 'gzip')) === 200, 'the slots are free again');
    }),
);

it.concurrent(
  'lists that have waited for one version begin over several turns of the event loop, between which others go on',
  async () => {
    const small = await createTestDatabase();
    await withService(small, async (service, key) => {
      const [server, unlock] = [service.app.getHttpServer(), await lockTable(service.db, 'order_list_changes')];
      let [turn, requests] = [0, 0];
      const ended: number[] = [];
      const follow = (_req: IncomingMessage, res: ServerResponse): void => {
        requests++;
        res.once('prefinish', () => ended.push(turn));
      };
      server.prependListener('request', follow);
      let counting: NodeJS.Immediate | undefined;
      const sockets = Array.from({ length: 100 }, () =>
        connect(service.port, '127.0.0.1').on('error', () => undefined),
      );
      try {
        sockets.forEach((socket) => socket.write(requestText('HEAD', '/v1/store/orders', { key })));
        await waitFor(() => requests === sockets.length, 'all requests have arrived');
        await untilLockWaits(service.db);
        const count = (): void => {
          turn++;
          counting = setImmediate(count);
        };
        count();
        await unlock();
        await waitFor(() => ended.length === sockets.length, 'all have their response');
        const inTurn = ended.map((each) => ended.filter((other) => other === each).length);
        expect(Math.max(...inTurn)).toBeLessThanOrEqual(BEGUN_PER_TURN);
      } finally {
        clearImmediate(counting);
        sockets.forEach((socket) => socket.destroy());
      }
    });
    await small.drop();
  },
);

it.concurrent('lists that wait for PostgreSQL share one connection: they get the 503 of a lock timeout', async () => {
  const small = await createTestDatabase();
  await insertOrder(small.db, { id: '1' });
  await withService(small, async (service, key) => {
    // The list needs the database again, where it waits.
    await service.db.query('UPDATE orders SET quantity = quantity + 1 WHERE id = 1');
    const unlock = await lockTable(service.db, 'orders');
    const lists = requestText('GET', '/v1/store/orders', { key }).repeat(UNCOMPRESSED_MAX / CLIENTS);
    const sockets = Array.from({ length: CLIENTS }, () => connect(service.port, '127.0.0.1'));
    try {
      sockets.forEach((socket) => socket.on('error', () => undefined).write(lists));
      await untilLockWaits(service.db, 1, 'petstore-list');
      const other = await insertKey(service.db);
      const startedAt = performance.now();
      const response = await listOrders(service.baseUrl, other.key, { 'Accept-Encoding': 'identity' });
      expect(performance.now() - startedAt).toBeLessThan(LOCKED_MAX_MS);
      const message = 'The service is temporarily unavailable; retry shortly.';
      expect(await errorOf(response)).toEqual({ status: 503, code: 'service_unavailable', message });
      expect(await lockWaits(service.db, 'petstore-list')).toBeLessThanOrEqual(1);
    } finally {
      sockets.forEach((socket) => socket.destroy());
      await unlock();
    }
  });
  await small.drop();
});
