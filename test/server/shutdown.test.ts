import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { CLI } from '../helpers/build.js';
import { insertKey, insertMany, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { cancelOrder } from '../helpers/api.js';
import { CURL_EXIT, curlList } from '../helpers/curl-list.js';
import { describeWith } from '../helpers/describe-with.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

const database = useTestDatabase();
let key: string;

beforeAll(async () => {
  ({ key } = await insertKey(database.db));
});

const start = (environment: Record<string, string> = {}): Promise<ServiceProcess> =>
  ServiceProcess.start({ DATABASE_URL: database.url, ...environment });

// At the same time: each has a process of its own, and most of the time they wait.
describe('SIGTERM', () => {
  it.concurrent('ends when nobody reads the log', async () => {
    const child = spawn(process.execPath, [CLI, 'serve'], {
      env: { ...process.env, DATABASE_URL: database.url, PORT: '0', METRICS_PORT: '0' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    try {
      const exited = once(child, 'exit');
      let head = '';
      child.stdout.on('data', (chunk: Buffer) => (head += chunk.toString()));
      const isListening = (): boolean => head.includes('"listening"');
      await waitFor(isListening, () => `the service listens; its output: ${head}`, { withinMs: 60_000 });
      child.stdout.pause();
      const port = Number(/"port":(\d+),"msg":"listening"/.exec(head)?.[1]);
      const text = (id: string): string => requestText('GET', '/v1/nowhere', { headers: [`X-Request-Id: ${id}`] });
      // Their lines are more than the buffers of the pipe hold.
      const client = await RawClient.open(port, text('x'.repeat(64)).repeat(2_000) + text('last'));
      const hasLast = (): boolean => client.received.includes('X-Request-Id: last');
      await waitFor(hasLast, 'all requests have their response', { withinMs: 60_000 });
      client.socket.destroy();
      child.kill('SIGTERM');
      expect(await exited).toEqual([0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it.concurrent('completes an in-flight cancel when SIGTERM, SIGINT or SIGHUP follows', async () => {
    const following = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
    const services = await Promise.all(following.map(() => start({ CANCEL_LOCK_TIMEOUT_MS: '10000' })));
    const ids = await insertOrders(database.db, services.length);
    const locks = await Promise.all(ids.map((id) => lockOrder(database.db, id)));
    const responses = services.map(({ baseUrl }, index) => cancelOrder(baseUrl, ids[index]!, key));
    await untilLockWaits(database.db, services.length);
    const stopped = services.map((service) => service.stop());
    for (const [index, service] of services.entries()) {
      await waitFor(() => service.output.includes('"stopping"'), 'the service stops');
      process.kill(service.pid, following[index]);
      await locks[index]!();
      expect((await responses[index]!).status).toBe(204);
      expect(await stopped[index]).toBe(0);
      expect(service.output).toContain('"stopped"');
      expect(await statusOf(database.db, ids[index]!)).toBe('cancelled');
    }
  });

  it.concurrent('exits with 0 when signals arrive until the end of the process', async () => {
    const service = await start();
    const state: { exited: boolean } = { exited: false };
    const stopped = service.stop().finally(() => (state.exited = true));
    await waitFor(() => service.output.includes('"stopping"'), 'the service stops');
    while (!state.exited) {
      try {
        process.kill(service.pid, 'SIGTERM');
      } catch {
        // It has ended, and Node has not reported that yet.
      }
      await new Promise(setImmediate);
    }
    expect(await stopped).toBe(0);
  });

  it.concurrent(
    'keeps responding, unready and closing connections, for SHUTDOWN_DELAY_SECONDS before the grace',
    async () => {
      // Other tests count the lock waits of theirs.
      const own = await createTestDatabase();
      const { key: ownKey } = await insertKey(own.db);
      const [slow, id] = [await insertOrder(own.db), await insertOrder(own.db)];
      const service = await start({
        DATABASE_URL: own.url,
        CANCEL_LOCK_TIMEOUT_MS: '30000',
        SHUTDOWN_DELAY_SECONDS: '6',
        SHUTDOWN_GRACE_SECONDS: '5',
      });
      const release = await lockOrder(own.db, slow);
      try {
        const pending = cancelOrder(service.baseUrl, slow, ownKey);
        await untilLockWaits(own.db);
        const stopped = service.stop();
        await waitFor(() => service.output.includes('"stopping"'), 'the service stops');
        const ready = await fetch(`${service.baseUrl}/health/ready`);
        expect(ready.status).toBe(503);
        expect(ready.headers.get('connection')).toBe('close');
        const live = (): Promise<number | undefined> =>
          fetch(`${service.baseUrl}/health/live`).then(
            ({ status }) => status,
            () => undefined,
          );
        expect(await live()).toBe(200);
        expect((await cancelOrder(service.baseUrl, id, ownKey)).status).toBe(204);
        await waitFor(async () => (await live()) === undefined, 'the delay has ended');
        await release();
        const { status, headers } = await pending;
        expect([status, headers.get('connection')]).toEqual([204, 'close']);
        expect(await stopped).toBe(0);
      } finally {
        await release();
        await service.stop('SIGKILL');
        await own.drop();
      }
    },
  );
});

describeWith('curl')('a list that outlasts the grace period', () => {
  // More than the buffers of both ends of a connection hold.
  beforeAll(() => insertMany(database.db, 220_000));

  it.each([
    ['from memory', '64', '1.1', CURL_EXIT.partialFile],
    ['as a stream', '0', '1.1', CURL_EXIT.partialFile],
    // A regular end could be that of the body.
    ['as a stream', '0', '1.0', CURL_EXIT.receiveError],
  ] as const)(
    'is broken off when it is sent %s (LIST_CACHE_MB=%s) in HTTP/%s',
    async (_how, cacheMb, version, exitCode) => {
      const service = await start({ SHUTDOWN_GRACE_SECONDS: '1', LIST_CACHE_MB: cacheMb });
      const readToEnd = await curlList(service.baseUrl, key, { version });
      expect(await service.stop()).toBe(0);
      expect(await readToEnd()).toBe(exitCode);
      expect(service.output).not.toContain('cannot write usage');
    },
  );
});
