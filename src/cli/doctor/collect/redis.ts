import type { Cluster, Redis } from 'ioredis';
import { asError } from '../../../common/as-error.js';
import type { Clock } from '../../../common/clock.js';
import { withRedis } from '../../../rate-limit/redis-admin.js';
import type { ConfigurationFacts, Known, RedisNodeFacts } from '../facts.js';
import { error as errorFinding } from '../finding.js';

/** Reads the state of every primary with TIME, INFO and CONFIG GET. */
export async function collectRedis(
  { config, invalid }: ConfigurationFacts,
  clock: Clock,
): Promise<Known<readonly RedisNodeFacts[]>> {
  if (invalid.has('REDIS_URL')) {
    return { reason: 'REDIS_URL is invalid' };
  }
  if (config.redisUrls.length === 0) {
    return { reason: 'REDIS_URL is not set' };
  }
  try {
    const nodes = await withRedis(config.redisUrls, (redis) =>
      Promise.all(nodesOf(redis).map((node) => readNode(node, clock))),
    );
    return { value: nodes };
  } catch (error) {
    return {
      reason: 'Redis unavailable',
      finding: errorFinding(
        asError(error).message,
        'Check REDIS_URL and that Redis runs; each process counts limits in its own memory meanwhile.',
      ),
    };
  }
}

function nodesOf(redis: Redis | Cluster): readonly Redis[] {
  return redis.isCluster ? (redis as Cluster).nodes('master') : [redis as Redis];
}

async function readNode(redis: Redis, clock: Clock): Promise<RedisNodeFacts> {
  const sentMs = clock.now();
  const [seconds, microseconds] = (await redis.time()).map(Number);
  const redisNowMs = (seconds ?? 0) * 1_000 + (microseconds ?? 0) / 1_000;
  const clockDifferenceMs = (sentMs + clock.now()) / 2 - redisNowMs;
  const info = fieldsOf(await redis.info());
  return {
    address: `${redis.options.host ?? ''}:${redis.options.port ?? ''}`,
    clockDifferenceMs,
    version: info.redis_version ?? 'unknown version',
    isReplica: info.role === 'slave',
    evictionPolicy: info.maxmemory_policy ?? 'unknown policy',
    memoryLimitBytes: Number(info.maxmemory ?? 0),
    memoryUsedBytes: Number(info.used_memory ?? 0),
    hasAppendOnlyFile: info.aof_enabled === '1',
    hasSnapshots: await hasSnapshots(redis),
    lastWriteFailed: info.aof_last_write_status === 'err' || info.rdb_last_bgsave_status === 'err',
  };
}

/** The user of the service may not run CONFIG, and managed servers do not have it. */
async function hasSnapshots(redis: Redis): Promise<boolean | undefined> {
  try {
    const [, save] = await redis.config('GET', 'save');
    return save === undefined ? undefined : save !== '';
  } catch {
    return undefined;
  }
}

function fieldsOf(info: string): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    info.split('\r\n').flatMap((line) => {
      const colon = line.indexOf(':');
      return colon === -1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
    }),
  );
}
