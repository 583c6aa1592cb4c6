import type { Duplex } from 'node:stream';
import { Cluster, Command, Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from '../common/deadline.js';
import { CONSUME_SCRIPT, type ConsumeReply } from './redis-script.js';

/** A client of one Redis or of a Redis Cluster, with {@link CONSUME_SCRIPT} as a command. */
export type LimitRedis = (Redis | Cluster) & {
  /** @param values those of `consumeArguments` */
  consume(key: string, ...values: readonly number[]): Promise<ConsumeReply>;
};

const RECONNECT_MAX_MS = 1_000;

/** Errors of a server that is not, or not yet, the primary: a new connection may reach the primary. */
const WRONG_SERVER_ERROR = /^(?:READONLY|LOADING|MASTERDOWN|NOAUTH)\b/;

/**
 * Every command is sent at most once and never queued: a script that timed out may have counted, and queued commands
 * would all run late, when Redis returns. Only `NOSCRIPT` makes the client send the script's text, because then nothing
 * was counted.
 */
const COMMAND_OPTIONS = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 2_000,
  // A connection on which a command gets no reply for this long is replaced. Well above the timeout of a command, so
  // that neither a slow reply nor a busy event loop breaks it.
  socketTimeout: 2_000,
  keepAlive: 10_000,
  reconnectOnError: ({ message }) => WRONG_SERVER_ERROR.test(message),
} satisfies RedisOptions;

const reconnectDelay = (attempt: number): number => Math.min(attempt * 50, RECONNECT_MAX_MS);

/** @param urls one address, or several nodes of a cluster; credentials and TLS (`rediss:`) as in the first of them */
export function connectRedis(urls: readonly string[]): LimitRedis {
  const [first = ''] = urls;
  const redis =
    urls.length === 1
      ? new Redis(first, { ...COMMAND_OPTIONS, retryStrategy: reconnectDelay })
      : connectCluster(urls, new URL(first));
  redis.defineCommand('consume', { numberOfKeys: 1, lua: CONSUME_SCRIPT });
  return redis as LimitRedis;
}

/** @param first whose credentials and TLS the nodes get that the cluster itself names */
function connectCluster(urls: readonly string[], first: URL): Cluster {
  return new Cluster([...urls], {
    enableOfflineQueue: false,
    clusterRetryStrategy: reconnectDelay,
    slotsRefreshTimeout: 1_000,
    slotsRefreshInterval: 5_000,
    // Redirections (MOVED, ASK) are followed, because nothing was counted; commands do not wait for a failed node.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 0,
    redisOptions: {
      ...COMMAND_OPTIONS,
      username: decodeURIComponent(first.username),
      password: decodeURIComponent(first.password),
      ...(first.protocol === 'rediss:' ? { tls: {} } : {}),
    },
  });
}

/** The node (`host:port`) of a cluster that stores a key, as far as the client knows; empty for a single Redis. */
export function nodeOf(redis: LimitRedis, key: string): string {
  return redis instanceof Cluster ? (redis.slots[new Command('get', [key]).getSlot()]?.[0] ?? '') : '';
}

/** Whether a node (`host:port`) of a cluster stores keys as a primary, as far as the client knows. */
export function isPrimary(cluster: Cluster, node: string): boolean {
  return cluster.slots.some(([primary]) => primary === node);
}

/**
 * Resolves when Redis is ready, or after `timeoutMs`, so that the first requests are counted where later ones are.
 * The client connects to the nodes of a cluster on first use; this connects to them in advance.
 */
export async function untilReady(redis: LimitRedis, timeoutMs: number): Promise<void> {
  const ready = new Promise<void>((resolve) => {
    if (redis.status === 'ready') {
      resolve();
    } else {
      redis.once('ready', resolve);
    }
  });
  const warm = ready.then(() =>
    redis.isCluster ? Promise.allSettled((redis as Cluster).nodes('master').map((node) => node.ping())) : undefined,
  );
  await withDeadline(warm, timeoutMs).catch(() => undefined);
}

/** Commands written together at most: Redis runs them while we read the next requests. */
const BATCH_MAX = 16;

/**
 * Writes the commands of one turn of the event loop in few system calls. Each stays a command of its own; the pipelining
 * of ioredis would do the same, but does not load a script again that Redis has evicted.
 */
export class CoalescedWrites {
  /** The connection that is corked until this turn ends. */
  #corked: Duplex | undefined;
  #batched = 0;

  constructor(private readonly redis: LimitRedis) {}

  /** Call before a command is sent. The connections to the nodes of a cluster are not corked. */
  batch(): void {
    if (this.#corked === undefined) {
      this.#cork();
    } else if (this.#batched % BATCH_MAX === 0) {
      this.#corked.uncork();
      this.#corked.cork();
    }
    this.#batched++;
  }

  #cork(): void {
    if (!(this.redis instanceof Redis) || this.redis.status !== 'ready') {
      return;
    }
    const stream: Duplex = this.redis.stream;
    stream.cork();
    this.#corked = stream;
    this.#batched = 0;
    setImmediate(() => {
      this.#corked = undefined;
      stream.uncork();
    });
  }
}
