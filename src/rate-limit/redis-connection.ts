import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { BAN_SCRIPT, CONSUME_SCRIPT } from './redis-scripts.js';

/** What {@link CONSUME_SCRIPT} returns. */
export type ConsumeReply = [nowMs: number, counted: 0 | 1, minuteUsed: number, dayUsed: number, bannedUntilMs: number];

/** A Redis, or a Redis Cluster, that knows our scripts. */
export type LimitRedis = (Redis | Cluster) & {
  consume(key: string, requestsPerMinute: number, requestsPerDay: number): Promise<ConsumeReply>;
  ban(key: string, bannedUntilMs: number): Promise<unknown>;
};

const RECONNECT_MAX_MS = 1_000;

/**
 * Every command is sent at most once and waits for nothing but its answer: a script that timed out may have counted, and
 * a queue of commands would all be carried out, late, when Redis returns. `NOSCRIPT` alone is answered by sending the
 * script's text, because then nothing was carried out.
 */
const COMMAND_OPTIONS = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 2_000,
  keepAlive: 10_000,
} satisfies RedisOptions;

const reconnectDelay = (attempt: number): number => Math.min(attempt * 50, RECONNECT_MAX_MS);

/** @param urls one address, or several nodes of a cluster; credentials and TLS (`rediss:`) as in the first of them */
export function connectRedis(urls: readonly string[]): LimitRedis {
  const [first = ''] = urls;
  const redis =
    urls.length === 1 ? new Redis(first, { ...COMMAND_OPTIONS, retryStrategy: reconnectDelay }) : connectCluster(urls);
  redis.defineCommand('consume', { numberOfKeys: 1, lua: CONSUME_SCRIPT });
  redis.defineCommand('ban', { numberOfKeys: 1, lua: BAN_SCRIPT });
  return redis as LimitRedis;
}

function connectCluster(urls: readonly string[]): Cluster {
  const nodes = urls.map((url) => new URL(url));
  const [first] = nodes;
  const options = {
    enableOfflineQueue: false,
    clusterRetryStrategy: reconnectDelay,
    slotsRefreshTimeout: 1_000,
    slotsRefreshInterval: 5_000,
    // Redirections (MOVED, ASK) are followed, since nothing was carried out; waits for a cluster in trouble are not.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 0,
    redisOptions: {
      ...COMMAND_OPTIONS,
      ...(first === undefined || first.username === '' ? {} : { username: decodeURIComponent(first.username) }),
      ...(first === undefined || first.password === '' ? {} : { password: decodeURIComponent(first.password) }),
      ...(first?.protocol === 'rediss:' ? { tls: {} } : {}),
    },
  };
  return new Cluster(
    nodes.map((node) => ({ host: node.hostname, port: Number(node.port === '' ? '6379' : node.port) })),
    options,
  );
}

/**
 * Resolves when Redis can be asked, or after `timeoutMs`, so that the first requests are counted where the later ones are.
 * The nodes of a cluster are connected to on first use; that is done here, so that no request has to wait for it.
 */
export async function untilReady(redis: LimitRedis, timeoutMs: number): Promise<void> {
  const ready = new Promise<void>((resolve) => {
    if (redis.status === 'ready') {
      resolve();
    } else {
      redis.once('ready', resolve);
    }
  });
  const warm = ready.then(async () => {
    if (redis.isCluster) {
      await Promise.allSettled((redis as Cluster).nodes('master').map((node) => node.ping()));
    }
  });
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([warm, timeout]);
  clearTimeout(timer);
}
