import type { Redis } from 'ioredis';
import { asError } from '../../common/as-error.js';
import type { Config } from '../../config/config.js';
import { withRedis } from '../../rate-limit/redis-admin.js';
import { redisKeyOf } from '../../rate-limit/redis-script.js';
import { checkClock, error, ok, type Result, type Results, skipped, warning } from './check.js';

const NEARLY_FULL = 0.9;

/** Returns which commands of service and commands this user may not run on a key of theirs. Runs none of them; Redis 6 cannot tell. */
const DENIED_SCRIPT = `
  local denied = {}
  local key = KEYS[1]
  for _, command in ipairs({ { 'EVALSHA', '0', '1', key }, { 'TIME' }, { 'HMGET', key, 'me' }, { 'HSET', key, 'me', '0' },
      { 'PEXPIREAT', key, '0' }, { 'HDEL', key, 'bu' } }) do
    if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(command)) then
      table.insert(denied, command[1])
    end
  end
  return denied`;

export async function checkRedis({ redisUrl }: Config): Promise<Results> {
  if (redisUrl === undefined) {
    return { Redis: skipped('REDIS_URL is not set') };
  }
  const address = new URL(redisUrl).host;
  return withRedis<Results>(redisUrl, async (redis) => ({
    Redis: await redisResultOf(address, redis),
    'clock of Redis': await checkClock('Redis', () => timeOf(redis)),
  })).catch((failure: unknown) => {
    const remedy =
      'Check REDIS_URL and that Redis is running; until then, each process counts limits in its own memory.';
    return { Redis: error(asError(failure).message, remedy) };
  });
}

async function redisResultOf(address: string, redis: Redis): Promise<Result> {
  const result = redisResult(address, await redis.info());
  // A cluster runs no script on a key of another node.
  return result.status === 'error' ? result : ((await rightsProblem(address, redis)) ?? result);
}

async function rightsProblem(address: string, redis: Redis): Promise<Result | undefined> {
  const denied = await redis.eval(DENIED_SCRIPT, 1, redisKeyOf('doctor')).catch((failure: unknown) => {
    const { message } = asError(failure);
    if (!message.startsWith('NOPERM')) {
      throw failure;
    }
    return [message];
  });
  const commands = denied as string[];
  const remedy =
    'Give the user the rights that deploy/make-secrets.sh gives it; until then, each process counts limits in its own memory.';
  return commands.length === 0 ? undefined : error(`${address} denies its user: ${commands.join(', ')}`, remedy);
}

async function timeOf(redis: Redis): Promise<number> {
  const [seconds = 0, microseconds = 0] = (await redis.time()).map(Number);
  return seconds * 1_000 + microseconds / 1_000;
}

/** @param info the reply to INFO */
export function redisResult(address: string, info: string): Result {
  const field = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1];
  const memoryLimit = Number(field('maxmemory'));
  if (field('role') === 'slave') {
    const remedy = 'Set REDIS_URL to the primary; each process counts alone meanwhile.';
    return error(`${address} is a read-only replica`, remedy);
  }
  if (field('cluster_enabled') === '1') {
    const remedy = 'Set REDIS_URL to a Redis that is not a cluster; until then, each process counts most keys alone.';
    return error(`${address} is a node of a Redis Cluster, which is not supported`, remedy);
  }
  if (memoryLimit > 0 && field('maxmemory_policy') !== 'noeviction') {
    const remedy = 'Set maxmemory-policy to noeviction: evicting a count resets a quota or lifts a ban.';
    return error(`${address} evicts counts (${field('maxmemory_policy')})`, remedy);
  }
  if (field('aof_last_write_status') === 'err' || field('rdb_last_bgsave_status') === 'err') {
    const remedy = 'Check the disk and the log of Redis; it may reject writes meanwhile.';
    return error(`${address} could not write to disk`, remedy);
  }
  const usedMemory = Number(field('used_memory'));
  if (memoryLimit > 0 && usedMemory >= NEARLY_FULL * memoryLimit) {
    const remedy = 'Raise maxmemory: when it is full, each process counts alone.';
    const message = `${address} uses ${Math.floor((100 * usedMemory) / memoryLimit)} % of its maxmemory`;
    return (usedMemory < memoryLimit ? warning : error)(message, remedy);
  }
  if (field('aof_enabled') !== '1') {
    const remedy =
      'Set appendonly to yes, as deploy/redis/redis.conf does: a restart of Redis resets quotas and lifts bans.';
    return warning(`${address} has no append-only file`, remedy);
  }
  return ok(`${field('redis_version')} at ${address}, with an append-only file and without eviction`);
}
