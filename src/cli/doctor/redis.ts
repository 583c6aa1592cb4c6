import type { Cluster, Redis } from 'ioredis';
import { asError } from '../../common/as-error.js';
import type { Clock } from '../../common/clock.js';
import { withRedis } from '../../rate-limit/redis-admin.js';
import { clockFinding } from './clock.js';
import type { Configuration } from './configuration.js';
import { error, type Finding, type Findings, list, noneChecked, notChecked, ok, warning } from './finding.js';

const DEPENDENT = ['Redis eviction', 'Redis persistence', 'clock of Redis'];
const NEARLY_FULL = 0.9;

/** A primary, as TIME, INFO and CONFIG GET describe it. */
export interface RedisNode {
  readonly address: string;
  /** This host's clock minus the server's. */
  readonly clockDifferenceMs: number;
  readonly version: string;
  readonly isReplica: boolean;
  readonly evictionPolicy: string;
  /** 0: unlimited. */
  readonly memoryLimitBytes: number;
  readonly memoryUsedBytes: number;
  readonly hasAppendOnlyFile: boolean;
  /** Undefined when the user may not read it. */
  readonly hasSnapshots: boolean | undefined;
  readonly lastWriteFailed: boolean;
}

/** Checks every primary of REDIS_URL. */
export async function checkRedis({ config, invalid }: Configuration, clock: Clock): Promise<Findings> {
  if (invalid.has('REDIS_URL')) {
    return noneChecked(['Redis', ...DEPENDENT], 'REDIS_URL is invalid');
  }
  if (config.redisUrls.length === 0) {
    return noneChecked(['Redis', ...DEPENDENT], 'REDIS_URL is not set');
  }
  try {
    const nodes = await withRedis(config.redisUrls, (redis) =>
      Promise.all(primariesOf(redis).map((node) => readNode(node, clock))),
    );
    return redisFindings(nodes);
  } catch (failure) {
    const remedy = 'Check REDIS_URL and that Redis runs; each process counts limits in its own memory meanwhile.';
    return { Redis: error(asError(failure).message, remedy), ...noneChecked(DEPENDENT, 'Redis unavailable') };
  }
}

/** @param processes running processes of the service */
export function withoutRedisFinding(processes: number): Finding {
  return processes > 1
    ? warning(
        `not configured, and ${processes} processes count limits separately`,
        'Set REDIS_URL: a caller can use its quota once per process otherwise.',
      )
    : ok('not configured: each process counts limits in its own memory');
}

export function redisFindings(nodes: readonly RedisNode[]): Findings {
  const worstClock = nodes
    .map(({ clockDifferenceMs }) => clockDifferenceMs)
    .reduce((worst, each) => (Math.abs(each) > Math.abs(worst) ? each : worst), 0);
  return {
    Redis: serverFinding(nodes),
    'Redis eviction': evictionFinding(nodes),
    'Redis persistence': persistenceFinding(nodes),
    'clock of Redis': clockFinding('Redis', worstClock),
  };
}

function serverFinding(nodes: readonly RedisNode[]): Finding {
  const replicas = nodes.filter(({ isReplica }) => isReplica);
  if (replicas.length > 0) {
    return error(
      `${list(replicas.map(({ address }) => address))} is a replica, which is read-only`,
      'Set REDIS_URL to the primary; the service counts in its own memory meanwhile.',
    );
  }
  const [first] = nodes;
  if (first === undefined) {
    return notChecked('the cluster has no primary');
  }
  return ok(
    nodes.length === 1
      ? `${first.version} at ${first.address}`
      : `cluster of ${nodes.length} primaries, ${first.version}`,
  );
}

function evictionFinding(nodes: readonly RedisNode[]): Finding {
  const evicting = nodes.filter(({ evictionPolicy }) => evictionPolicy !== 'noeviction');
  const worst = evicting.find(({ memoryLimitBytes }) => memoryLimitBytes > 0) ?? evicting[0];
  if (worst !== undefined) {
    const remedy =
      'Set maxmemory-policy to noeviction: an evicted count gives its caller a new quota and lifts its ban.';
    return worst.memoryLimitBytes > 0
      ? error(`${worst.evictionPolicy} on ${worst.address}: counts are evicted`, remedy)
      : warning(`${worst.evictionPolicy} on ${worst.address}, so far without maxmemory`, remedy);
  }
  const full = nodes.find(
    ({ memoryLimitBytes, memoryUsedBytes }) =>
      memoryLimitBytes > 0 && memoryUsedBytes >= NEARLY_FULL * memoryLimitBytes,
  );
  return full === undefined
    ? ok('noeviction')
    : warning(
        `noeviction, and the memory of ${full.address} is nearly full`,
        'Raise maxmemory: when it is full, each process counts limits in its own memory.',
      );
}

function persistenceFinding(nodes: readonly RedisNode[]): Finding {
  const failing = nodes.find(({ lastWriteFailed }) => lastWriteFailed);
  if (failing !== undefined) {
    return error(
      `${failing.address} could not write its data to disk`,
      'Check the disk and the log of Redis; it may reject writes until it can save.',
    );
  }
  const weakest = nodes.find(({ hasAppendOnlyFile }) => !hasAppendOnlyFile);
  if (weakest === undefined) {
    return ok('append-only file');
  }
  const { address, hasSnapshots } = weakest;
  const alternative = hasSnapshots === true ? 'has snapshots only, which miss the last minutes' : 'persists nothing';
  return warning(
    `${address} ${hasSnapshots === undefined ? 'has no append-only file' : alternative}`,
    'Set appendonly to yes, as deploy/redis/redis.conf does: otherwise a restart of Redis resets quotas and lifts bans.',
  );
}

function primariesOf(redis: Redis | Cluster): readonly Redis[] {
  return redis.isCluster ? (redis as Cluster).nodes('master') : [redis as Redis];
}

async function readNode(redis: Redis, clock: Clock): Promise<RedisNode> {
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
