import { insertOrder } from '../helpers/builders.js';
import { CURL_EXIT, curlList } from '../helpers/curl-list.js';
import { describeWith } from '../helpers/describe-if.js';
import { untilLockWaits } from '../helpers/lock-waits.js';
import { waitFor } from '../helpers/wait-for.js';
import { expectWholeList, useSlowClients } from './slow-clients.js';

const slow = useSlowClients();

const listsThatEnded = (end: 'disconnected' | 'cut' | 'failed'): Promise<number> =>
  slow.metric('petstore_lists_total', `end="${end}"`);

/** The client notices it before the service has cleaned up. */
async function untilEnded(end: 'disconnected' | 'failed'): Promise<void> {
  await waitFor(async () => (await listsThatEnded(end)) === 1, `the list counts as ${end}`);
}

async function untilNoListRuns(): Promise<void> {
  const isNone = async (): Promise<boolean> =>
    (await slow.metric('petstore_lists_running')) + (await slow.streamConnectionsInUse()) === 0;
  await waitFor(isNone, 'no list is running');
}

describe('a list that is streamed', () => {
  it('its client disconnects: its connection is released', async () => {
    await slow.start({ LIST_CONCURRENCY: '1', LIST_CACHE_MB: '0' });
    const client = await slow.stall();
    await slow.untilHeld(1);
    expect(await slow.streamConnectionsInUse()).toBe(1);
    client.socket.destroy();
    await untilNoListRuns();
    await slow.untilHeld(0);
    await untilEnded('disconnected');
    await expectWholeList(slow);
  });

  it('its client reads slowly: it holds up ALTER TABLE for a minute at most', async () => {
    await slow.start({ LIST_CACHE_MB: '0', LIST_STALL_SECONDS: '300' });
    const { db } = slow.database;
    // Only `setTimeout` is faked.
    const intervals = ['setImmediate', 'clearImmediate', 'setInterval', 'clearInterval'] as const;
    const doNotFake = ['Date', 'hrtime', 'nextTick', 'performance', 'queueMicrotask', ...intervals] as const;
    jest.useFakeTimers({ doNotFake: [...doNotFake] });
    try {
      const client = await slow.stall();
      await slow.untilHeld(1);
      const altered = db.query('ALTER TABLE orders ADD COLUMN added int');
      await untilLockWaits(db);
      jest.advanceTimersByTime(60_000);
      await altered;
      await client.readToEnd();
      expect(client.responses).toEqual([]);
    } finally {
      jest.useRealTimers();
    }
    await db.query('ALTER TABLE orders DROP COLUMN added');
  });
});

it('its client reads nothing of a list from memory for LIST_STALL_SECONDS: it is shorter than its Content-Length', async () => {
  await slow.start({ LIST_STALL_SECONDS: '1', LIST_CACHE_MB: '64' });
  const client = await slow.stall();
  await untilNoListRuns();
  await client.readToEnd();
  expect([client.responses, client.hasLength]).toEqual([[], true]);
  await untilEnded('disconnected');
});

it('a list from memory, which newer versions need: it is cut, and shorter than its Content-Length', async () => {
  await slow.start({ LIST_CACHE_MB: '1' });
  const isCut = async (): Promise<boolean> => {
    expect((await slow.stall()).hasLength).toBe(true);
    await slow.database.db.query('SELECT renew_order_list_versions()');
    return (await listsThatEnded('cut')) > 0;
  };
  await waitFor(isCut, 'the oldest list is cut');
  expect(await listsThatEnded('cut')).toBe(1);
  const oldest = slow.clients[0]!;
  await oldest.readToEnd();
  expect(oldest.responses).toEqual([]);
  await expectWholeList(slow);
});

describeWith('curl')('a list that fails after it has begun, read by curl', () => {
  it.each([
    ['1.0', 'gzip', CURL_EXIT.receiveError],
    ['1.1', 'identity', CURL_EXIT.partialFile],
  ] as const)('an order cannot be encoded: broken off in HTTP/%s, %s', async (version, encoding, exitCode) => {
    const { db } = slow.database;
    const id = await insertOrder(db, { id: slow.nextId() });
    await db.query('ALTER TABLE orders ALTER quantity DROP NOT NULL');
    await db.query('UPDATE orders SET quantity = NULL WHERE id = $1', [id]);
    try {
      await slow.start({ LIST_CACHE_MB: '0' });
      const readByCurl = await curlList(slow.service.baseUrl, slow.key, { version, encoding });
      expect(await readByCurl()).toBe(exitCode);
      await untilEnded('failed');
    } finally {
      await db.query('DELETE FROM orders WHERE id = $1', [id]);
      await db.query('ALTER TABLE orders ALTER quantity SET NOT NULL');
    }
  });

  it('its client reads nothing for LIST_STALL_SECONDS: reset in HTTP/1.0', async () => {
    await slow.start({ LIST_STALL_SECONDS: '1', LIST_CACHE_MB: '0' });
    const readByCurl = await curlList(slow.service.baseUrl, slow.key, { version: '1.0' });
    await untilEnded('disconnected');
    expect(await readByCurl()).toBe(CURL_EXIT.receiveError);
  });

  // Last, because it inserts orders that the others need not read.
  it('its database connection is lost while its client reads nothing: reset in HTTP/1.0', async () => {
    const { db } = slow.database;
    // In the format of COPY 68 bytes each, in all 27 MB: more than the buffers of both connections hold.
    await db.query(
      `INSERT INTO orders (id, pet_id, quantity, ship_date)
       SELECT n, 9000000000000000000 + n, 2147483647, now() FROM generate_series(20000001, 20280000) AS n`,
    );
    await slow.start({ LIST_CACHE_MB: '0' });
    const readByCurl = await curlList(slow.service.baseUrl, slow.key, { version: '1.0' });
    const terminate = `
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE 'COPY %' AND state = 'active' AND wait_event = 'ClientWrite'`;
    await waitFor(async () => (await db.query(terminate)).rowCount === 1, 'PostgreSQL waits');
    expect(await readByCurl()).toBe(CURL_EXIT.receiveError);
    await untilNoListRuns();
    await untilEnded('failed');
    await expectWholeList(slow);
  });
});
