import { AsyncLocalStorage } from 'node:async_hooks';
import { Logger } from '@nestjs/common';
import type { Redis } from 'ioredis';
import type { Clock } from '../../src/common/clock.js';
import type { Quotas } from '../../src/plans/plans.js';
import { RedisQuotaStore } from '../../src/rate-limit/redis-quota-store.js';
import { redisKeyOf } from '../../src/rate-limit/redis-script.js';
import { RedisServer } from './redis-server.js';
import { TcpProxy } from './tcp-proxy.js';
import { waitFor } from './wait-for.js';

export const ROOMY: Quotas = { requestsPerMinute: 1_000_000, requestsPerDay: 1_000_000 };

/** The rights of a user of Redis, as docs/operations.md lists them. */
export const SERVICE_COMMANDS: readonly string[] =
  '-@all +evalsha +eval +time +hmget +hset +hdel +pexpireat +info +ping +select'.split(' ');

export const BAN_RULE = { threshold: 3, windowSeconds: 60, durationSeconds: 300 };

/** Redis servers and limit stores of one test, and what the stores report. Tests may run at the same time. */
export class RedisLimits {
  static readonly #ends: (() => unknown)[] = [];
  /** Whose test has caused a log line. */
  static readonly #ofTest = new AsyncLocalStorage<RedisLimits>();
  readonly logged: string[] = [];
  bans = 0;
  recoveries = 0;

  /** Call at the top level. Servers and stores end after the tests of the file. */
  static use(): void {
    const log = (message: unknown): unknown => this.#ofTest.getStore()?.logged.push(String(message));
    Logger.overrideLogger({ log: () => undefined, warn: log, error: log });
    afterAll(() => Promise.all(this.#ends.map((end) => end())));
  }

  constructor() {
    RedisLimits.#ofTest.enterWith(this);
  }

  async startRedis(flags: readonly string[] = []): Promise<RedisServer> {
    const server = await RedisServer.start(flags);
    RedisLimits.#ends.push(() => server.stop());
    return server;
  }

  async startProxy(server: RedisServer): Promise<TcpProxy> {
    const proxy = await TcpProxy.start(server.url);
    RedisLimits.#ends.push(() => proxy.close());
    return proxy;
  }

  async storeOn(url: string, clock: Clock = Date): Promise<RedisQuotaStore> {
    const store = await RedisQuotaStore.connect(url, {
      clock,
      banRule: BAN_RULE,
      bans: { inc: () => this.bans++ },
      recoveries: { inc: () => this.recoveries++ },
    });
    RedisLimits.#ends.push(() => {
      store.onApplicationShutdown();
    });
    return store;
  }
}

/** Every request gets a verdict with limits, while the store becomes degraded. */
export async function expectFallback(store: RedisQuotaStore): Promise<void> {
  await waitFor(async () => {
    expect(await store.consume('a', ROOMY)).toMatchObject({ outcome: 'admitted', minute: { limit: 1_000_000 } });
    return store.degraded;
  }, 'the store is degraded');
  expect((await store.consume('limited', { requestsPerMinute: 9, requestsPerDay: 1 })).outcome).toBe('admitted');
  expect((await store.consume('limited', { requestsPerMinute: 9, requestsPerDay: 1 })).outcome).toBe('limited');
}

/** Sends requests until one of them finds that Redis is available. */
export async function untilRecovered(store: RedisQuotaStore): Promise<void> {
  await waitFor(async () => {
    await store.consume('probe', ROOMY);
    return !store.degraded;
  }, 'the store is not degraded');
}

/** Requests are counted in Redis again; the outage was logged once, and its end once. */
export async function expectRecovery(
  store: RedisQuotaStore,
  server: RedisServer,
  logged: readonly string[],
): Promise<void> {
  await untilRecovered(store);
  const before = await countOf(server, 'a');
  expect((await store.consume('a', ROOMY)).outcome).toBe('admitted');
  expect(await countOf(server, 'a')).toBe(before + 1);
  expect(logged.filter((line) => line.includes('unavailable'))).toHaveLength(1);
  expect(logged.filter((line) => line.includes('available again'))).toHaveLength(1);
}

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
