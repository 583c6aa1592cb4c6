import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort } from './free-port.mjs';

const START_TIMEOUT_MS = 5_000;

/**
 * Starts a private `redis-server` without persistence.
 * @returns {Promise<{url: string, clear(): Promise<void>, stop(): Promise<void>}>}
 */
export async function startRedis(folder) {
  const port = await freePort();
  const child = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder],
    { stdio: 'ignore' },
  );
  const missing = once(child, 'error').then(() => {
    throw new Error('redis-server is not installed (Debian: apt install redis-server).');
  });
  const url = `redis://127.0.0.1:${port}`;
  await Promise.race([missing, untilItResponds(url)]);
  return {
    url,
    /** Deletes all counts, so that the next contestant starts with unused keys. */
    clear: async () => {
      const redis = new Redis(url);
      await redis.flushall();
      redis.disconnect();
    },
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, 'exit');
        child.kill('SIGTERM');
        await exited;
      }
    },
  };
}

async function untilItResponds(url) {
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    const redis = new Redis(url, { lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0 });
    redis.on('error', () => undefined);
    try {
      await redis.connect();
      return;
    } catch (error) {
      if (Date.now() > deadline) {
        throw new Error('redis-server did not start.', { cause: error });
      }
      await delay(20);
    } finally {
      redis.disconnect();
    }
  }
}
