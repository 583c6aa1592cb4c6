import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { freePort } from './free-port.mjs';

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
  const exited = once(child, 'exit');
  exited.catch(() => {
    process.stderr.write('redis-server is not installed (Debian: apt install redis-server).\n');
    process.exit(1);
  });
  const url = `redis://127.0.0.1:${port}`;
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  // Until it listens; ioredis connects again by itself.
  redis.on('error', () => undefined);
  await redis.ping();
  return {
    url,
    /** Deletes all counts, so that the next contestant starts with unused keys. */
    clear: () => redis.flushall(),
    stop: async () => {
      redis.disconnect();
      child.kill();
      await exited;
    },
  };
}
