import type { Redis } from 'ioredis';
import { redisKeyOf } from '../../src/rate-limit/redis-script.js';
import type { RedisServer } from './redis-server.js';

/** The rights of a user of Redis, as docs/operations.md lists them. */
export const SERVICE_COMMANDS: readonly string[] =
  '-@all +evalsha +eval +time +hmget +hset +hdel +pexpireat +info +ping +select'.split(' ');

/** Runs commands on a connection of their own. */
export async function administrate<T>(server: RedisServer, work: (admin: Redis) => Promise<T>): Promise<T> {
  const admin = server.connect();
  admin.on('error', () => undefined);
  try {
    return await work(admin);
  } finally {
    admin.disconnect();
  }
}

/** The requests of a key on this day, as a server has them. */
export async function countOf(server: RedisServer, keyId: string): Promise<number> {
  return administrate(server, async (admin) => Number(await admin.hget(redisKeyOf(keyId), 'du')));
}

/** Moves the start of the grace of a key back, past the time in which its rejections do not count towards a ban. */
export async function letInFlightPass(server: RedisServer, keyId: string): Promise<void> {
  await administrate(server, (admin) => admin.hincrby(redisKeyOf(keyId), 'gs', -2_000));
}
