import type { Config } from '../../config/config.js';
import { withRedis } from '../../rate-limit/redis-admin.js';
import { consumeArguments, redisKeyOf } from '../../rate-limit/redis-script.js';
import { attempt, error, ok, type Result, skipped, warning } from './check.js';

/** A key of its own, which expires with the day. */
const KEY = redisKeyOf('doctor');
const QUOTAS = { requestsPerMinute: 1_000_000, requestsPerDay: 1_000_000 };
const NO_BANS = { threshold: 0, windowSeconds: 1, durationSeconds: 1 };

const REMEDY =
  'Check REDIS_URL, Redis, and that its user has the rights that deploy/make-secrets.sh gives; until then, each process counts limits in its own memory.';

/** Counts requests as the service does: this shows whether its user may, and whether Redis accepts writes. */
export async function checkRedis({ redisUrl }: Config): Promise<Result> {
  if (redisUrl === undefined) {
    return skipped('REDIS_URL is not set');
  }
  return attempt(REMEDY, () =>
    withRedis(redisUrl, async (redis) => {
      const info = await redis.info();
      const field = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1];
      if (field('cluster_enabled') === '1') {
        return error('Redis Cluster is not supported', 'Set REDIS_URL to a Redis that is not a cluster.');
      }
      // The first one sends the text of the script, the second its digest.
      await redis.consume(KEY, ...consumeArguments(QUOTAS, NO_BANS));
      await redis.consume(KEY, ...consumeArguments(QUOTAS, NO_BANS));
      if (field('maxmemory') !== '0' && field('maxmemory_policy') !== 'noeviction') {
        return error(
          `Redis evicts counts (${field('maxmemory_policy')}), which resets quotas and lifts bans`,
          'Set maxmemory-policy to noeviction, as deploy/redis/redis.conf does.',
        );
      }
      return field('aof_enabled') === '1'
        ? ok(`Redis ${field('redis_version')} at ${new URL(redisUrl).host} counts requests`)
        : warning(
            'Redis has no append-only file: its restart resets quotas and lifts bans',
            'Set appendonly to yes, as deploy/redis/redis.conf does.',
          );
    }),
  );
}
