import type { Cluster, Redis } from 'ioredis';
import type { Clock } from '../../common/clock.js';
import type { Config } from '../../config/config.js';
import { withRedis } from '../../rate-limit/redis-admin.js';
import { messageOf } from '../report-error.js';
import { error, ok, type Result, type Results, skipped, warning } from './check.js';
import { clockDifference, clockResult } from './clock.js';

const NEARLY_FULL = 0.9;

/** A primary, as INFO and TIME describe it. */
export interface RedisNode {
  readonly address: string;
  readonly info: Readonly<Record<string, string | undefined>>;
  /** This host's clock minus the server's. Milliseconds. */
  readonly clockDifferenceMs: number;
}

/** Checks every primary of REDIS_URL. */
export async function checkRedis({ redisUrls }: Config, clock: Clock): Promise<Results> {
  if (redisUrls.length === 0) {
    return { Redis: skipped('REDIS_URL is not set') };
  }
  try {
    return redisResults(
      await withRedis(redisUrls, (redis) => {
        const nodes = redis.isCluster ? (redis as Cluster).nodes('master') : [redis as Redis];
        return Promise.all(nodes.map((node) => readNode(node, clock)));
      }),
    );
  } catch (failure) {
    const remedy = 'Check REDIS_URL and that Redis runs; each process counts limits in its own memory meanwhile.';
    return { Redis: error(messageOf(failure), remedy) };
  }
}

async function readNode(redis: Redis, clock: Clock): Promise<RedisNode> {
  const clockDifferenceMs = await clockDifference(clock, async () => {
    const [seconds = 0, microseconds = 0] = (await redis.time()).map(Number);
    return seconds * 1_000 + microseconds / 1_000;
  });
  const fields = (await redis.info()).split('\r\n').map((line) => [line.split(':', 1)[0], line.replace(/^.*?:/, '')]);
  const { host, port } = redis.options;
  return {
    address: `${host ?? ''}:${port ?? ''}`,
    info: Object.fromEntries(fields) as RedisNode['info'],
    clockDifferenceMs,
  };
}

const RANKS = ['ok', 'warning', 'error'];

/** Of each check, the worst result of all nodes. */
export function redisResults(nodes: readonly RedisNode[]): Results {
  const results: Results = {};
  for (const [name, result] of nodes.map(resultsOf).flatMap(Object.entries<Result>)) {
    if (RANKS.indexOf(result.status) > RANKS.indexOf(results[name]?.status ?? '')) {
      results[name] = result;
    }
  }
  return results;
}

function resultsOf({ address, info, clockDifferenceMs }: RedisNode): Results {
  const isReplica = info.role === 'slave';
  const memoryLimit = Number(info.maxmemory);
  return {
    Redis: isReplica
      ? error(
          `${address} is a replica, which is read-only`,
          'Set REDIS_URL to the primary; each process counts alone meanwhile.',
        )
      : ok(`${info.redis_version ?? 'unknown version'} at ${address}`),
    'Redis memory': memoryLimit === 0 ? ok('without limit') : memoryResult(address, info, memoryLimit),
    'Redis persistence': persistenceResult(address, info),
    'clock of Redis': clockResult('Redis', clockDifferenceMs),
  };
}

function memoryResult(address: string, info: RedisNode['info'], limit: number): Result {
  if (info.maxmemory_policy !== 'noeviction') {
    return error(
      `${address} evicts counts (${info.maxmemory_policy ?? 'unknown policy'})`,
      'Set maxmemory-policy to noeviction: an evicted count gives its caller a new quota and lifts its ban.',
    );
  }
  return Number(info.used_memory) < NEARLY_FULL * limit
    ? ok('noeviction')
    : warning(
        `${address} has nearly used it up`,
        'Raise maxmemory: when it is full, each process counts in its own memory.',
      );
}

function persistenceResult(address: string, info: RedisNode['info']): Result {
  if (info.aof_last_write_status === 'err' || info.rdb_last_bgsave_status === 'err') {
    return error(
      `${address} could not write its data to disk`,
      'Check the disk and the log of Redis; it may reject writes until it can save.',
    );
  }
  return info.aof_enabled === '1'
    ? ok('append-only file')
    : warning(
        `${address} has no append-only file`,
        'Set appendonly to yes, as deploy/redis/redis.conf does: otherwise a restart of Redis resets quotas and lifts bans.',
      );
}
