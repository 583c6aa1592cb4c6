import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Logger } from '@nestjs/common';
import type { Redis } from 'ioredis';
import { systemClock } from '../../src/common/clock.js';
import type { Quotas } from '../../src/plans/plans.js';
import { FallbackQuotaStore } from '../../src/rate-limit/fallback-quota-store.js';
import { connectRedis, type LimitRedis, nodeOf, untilReady } from '../../src/rate-limit/redis-connection.js';
import { redisKeyOf } from '../../src/rate-limit/redis-scripts.js';
import { cancelOrder } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { CertificateAuthority } from '../helpers/certificates.js';
import { describeWith } from '../helpers/describe-with.js';
import { freePort } from '../helpers/free-port.js';
import { formCluster } from '../helpers/redis-cluster.js';
import { RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const ROOMY: Quotas = { requestsPerMinute: 1_000_000, requestsPerDay: 1_000_000 };
const BAN_RULE = { threshold: 10, windowSeconds: 60, durationSeconds: 300 };
const HEALED = { withinMs: 15_000 };

const clients: LimitRedis[] = [];
const servers: RedisServer[] = [];
let logged: string[];

beforeEach(() => {
  logged = [];
  for (const level of ['warn', 'error'] as const) {
    jest.spyOn(Logger.prototype, level).mockImplementation((...[message]: unknown[]) => {
      logged.push(String(message));
    });
  }
});
afterEach(async () => {
  for (const client of clients.splice(0)) {
    client.disconnect();
  }
  await Promise.all(servers.splice(0).map((server) => server.stop()));
  jest.restoreAllMocks();
});

async function startRedis(flags: readonly string[] = []): Promise<RedisServer> {
  const server = await RedisServer.start(flags);
  servers.push(server);
  return server;
}

async function storeOn(...urls: readonly string[]): Promise<FallbackQuotaStore> {
  const redis = connectRedis(urls);
  clients.push(redis);
  const store = new FallbackQuotaStore({
    redis,
    clock: systemClock,
    banRule: BAN_RULE,
    onBan: () => undefined,
    onRecovered: () => undefined,
  });
  await untilReady(redis, 5_000);
  return store;
}

async function administrate<T>(server: RedisServer, work: (admin: Redis) => Promise<T>): Promise<T> {
  const admin = server.connect();
  admin.on('error', () => undefined);
  try {
    return await work(admin);
  } finally {
    admin.disconnect();
  }
}

async function countOf(server: RedisServer, subject: string): Promise<number> {
  return administrate(server, async (admin) => Number(await admin.hget(redisKeyOf(subject), 'du')));
}

/** Every request gets a verdict with limits, while the store becomes degraded. */
async function expectFallback(store: FallbackQuotaStore): Promise<void> {
  await waitFor(async () => {
    expect(await store.consume('key:a', ROOMY)).toMatchObject({ outcome: 'admitted', minute: { limit: 1_000_000 } });
    return store.degraded;
  }, 'the store is degraded');
  expect((await store.consume('key:limited', { requestsPerMinute: 1, requestsPerDay: 9 })).outcome).toBe('admitted');
  expect((await store.consume('key:limited', { requestsPerMinute: 1, requestsPerDay: 9 })).outcome).toBe('limited');
}

/** Requests are counted in Redis again; the outage was logged once, and its end once. */
async function expectRecovery(store: FallbackQuotaStore, server: RedisServer): Promise<void> {
  await waitFor(() => !store.degraded, 'the store is not degraded', HEALED);
  const before = await countOf(server, 'key:a');
  expect((await store.consume('key:a', ROOMY)).outcome).toBe('admitted');
  expect(await countOf(server, 'key:a')).toBe(before + 1);
  expectLoggedOnce();
}

function expectLoggedOnce(): void {
  expect(logged.filter((line) => line.includes('unavailable'))).toHaveLength(1);
  expect(logged.filter((line) => /available again|replaced/.test(line))).toHaveLength(1);
}

describeWith('redis-server')('a Redis that rejects commands', () => {
  it('OOM: counts in memory while maxmemory is reached', async () => {
    const server = await startRedis();
    const store = await storeOn(server.url);
    await administrate(server, (admin) => admin.config('SET', 'maxmemory', '1'));
    await expectFallback(store);
    expect(logged[0]).toContain('OOM');
    await administrate(server, (admin) => admin.config('SET', 'maxmemory', '0'));
    await expectRecovery(store, server);
  });

  it('BUSY: counts in memory while a script of another client runs', async () => {
    const server = await startRedis(['--busy-reply-threshold', '20']);
    const store = await storeOn(server.url);
    await administrate(server, async (admin) => {
      await admin.ping();
      const script = server.connect();
      script.eval('while true do end', 0).catch(() => undefined);
      await expectFallback(store);
      await admin.script('KILL');
      script.disconnect();
    });
    await expectRecovery(store, server);
  });

  it('LOADING: counts in memory while Redis loads its data', async () => {
    const server = await startRedis(['--key-load-delay', '5000', '--loading-process-events-interval-bytes', '1024']);
    const store = await storeOn(server.url);
    await administrate(server, async (admin) => {
      for (let key = 0; key < 500; key++) {
        await admin.set(`filler:${key}`, 'x'.repeat(100));
      }
      await admin.save();
    });
    await server.kill();
    const restarted = server.restart();
    await expectFallback(store);
    await restarted;
    await expectRecovery(store, server);
  });

  it('NOAUTH: counts in memory while Redis expects another password', async () => {
    const server = await startRedis();
    const store = await storeOn(server.url);
    const keeper = server.connect();
    await keeper.config('SET', 'requirepass', 'changed');
    // Connections that are open remain authenticated.
    await keeper.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await expectFallback(store);
    await keeper.config('SET', 'requirepass', '');
    keeper.disconnect();
    await expectRecovery(store, server);
  });
});

describeWith('redis-server', 'openssl')('a Redis with TLS and ACL users', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-redis-tls-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('counts for a user with access to the keys and commands of the service only', async () => {
    const authority = new CertificateAuthority(folder, 'authority');
    const { certificate, key: certificateKey } = authority.issue('redis', { hosts: 'DNS:localhost' });
    const tlsPort = await freePort();
    const server = await startRedis([
      ...['--tls-port', String(tlsPort), '--tls-auth-clients', 'no', '--tls-ca-cert-file', authority.file],
      ...['--tls-cert-file', certificate, '--tls-key-file', certificateKey],
      ...['--user', 'petstore', 'on', '>secret', '~petstore:*', 'resetchannels', ...SERVICE_COMMANDS],
    ]);
    const database = await createTestDatabase();
    const { key } = await insertKey(database.db, { requests_per_minute: 2, requests_per_day: 100 });
    const start = (password: string): Promise<ServiceProcess> =>
      ServiceProcess.start({
        DATABASE_URL: database.url,
        REDIS_URL: `rediss://petstore:${password}@localhost:${tlsPort}`,
        NODE_EXTRA_CA_CERTS: authority.file,
      });
    const services = [await start('secret'), await start('secret')] as const;
    try {
      const statuses: number[] = [];
      for (const service of [...services, ...services]) {
        statuses.push((await cancelOrder(service.baseUrl, '1', key)).status);
      }
      expect(statuses).toEqual([404, 404, 429, 429]);
      for (const service of services) {
        expect(service.output).not.toContain('unavailable');
      }
      expect(await administrate(server, (admin) => admin.keys('*'))).toHaveLength(1);
    } finally {
      await Promise.all(services.map((service) => service.stop()));
      await database.drop();
    }
  });
});

/** As docs/operations.md lists them. */
const SERVICE_COMMANDS = [
  '-@all',
  '+evalsha',
  '+eval',
  '+time',
  '+hmget',
  '+hset',
  '+hget',
  '+hdel',
  '+pexpireat',
  '+info',
  '+ping',
];

describeWith('redis-server', 'haproxy')('a Redis primary and its replica behind HAProxy', () => {
  let folder: string;
  let proxy: ChildProcess;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-redis-proxy-'));
  });
  afterEach(() => {
    proxy.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });

  it('continues with the counts of the replica when the primary is killed and the replica promoted', async () => {
    const [primary, replica] = [await startRedis(), await startRedis()];
    await administrate(replica, (admin) => admin.replicaof('127.0.0.1', primary.port));
    const port = await freePort();
    const file = join(folder, 'haproxy.cfg');
    writeFileSync(file, haproxyFor(port, [primary.port, replica.port]));
    execFileSync('haproxy', ['-c', '-f', file], { stdio: 'pipe' });
    proxy = spawn('haproxy', ['-f', file, '-db'], { stdio: 'ignore' });
    const store = await storeOn(`redis://127.0.0.1:${port}`);
    await waitFor(
      async () => (await countOf(primary, 'key:a')) > 0 || consumed(store),
      'the proxy leads to the primary',
    );
    await waitFor(() => !store.degraded, 'the store is not degraded');
    logged = [];
    await Promise.all(Array.from({ length: 50 }, async () => store.consume('key:b', ROOMY)));
    await waitFor(async () => (await countOf(replica, 'key:b')) === 50, 'the replica has all counts');
    await primary.kill();
    await expectFallback(store);
    await administrate(replica, (admin) => admin.replicaof('NO', 'ONE'));
    await expectRecovery(store, replica);
    await store.consume('key:b', ROOMY);
    expect(await countOf(replica, 'key:b')).toBe(51);
  });

  async function consumed(store: FallbackQuotaStore): Promise<boolean> {
    await store.consume('key:a', ROOMY);
    return false;
  }
});

function haproxyFor(port: number, redisPorts: readonly number[]): string {
  return `defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h

listen redis
  bind 127.0.0.1:${port}
  option tcp-check
  tcp-check send info\\ replication\\r\\n
  tcp-check expect string role:master
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${redisPorts.map((redis) => `  server redis${redis} 127.0.0.1:${redis} check`).join('\n')}
`;
}

describeWith('redis-server')('a Redis Cluster of six nodes', () => {
  it('loses no count when a primary is killed under load, affects no other shard, and heals by itself', async () => {
    const flags = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
    const tolerant = [...flags, '--cluster-require-full-coverage', 'no'];
    const primaries = await Promise.all([1, 2, 3].map(() => startRedis(tolerant)));
    await formCluster(primaries);
    const replicas = await Promise.all(primaries.map(() => startRedis(tolerant)));
    for (const [index, replica] of replicas.entries()) {
      await replicate(replica, primaries[index]!);
    }
    const store = await storeOn(...[...primaries, ...replicas].map(({ url }) => url));
    const [redis] = clients as [LimitRedis];
    const failed = primaries[0]!;
    const successor = replicas[0]!;
    const isOn = (subject: string, server: RedisServer): boolean =>
      nodeOf(redis, redisKeyOf(subject)) === `127.0.0.1:${server.port}`;
    const subjects = Array.from({ length: 30 }, (_, number) => `key:${number}`);
    const affected = subjects.filter((subject) => isOn(subject, failed));
    const others = subjects.filter((subject) => !isOn(subject, failed));
    expect([affected.length > 0, others.length > 0]).toEqual([true, true]);
    let rounds = 0;
    const consumeAll = async (): Promise<void> => {
      await Promise.all(subjects.map(async (subject) => store.consume(subject, ROOMY)));
      rounds++;
    };
    for (let round = 0; round < 20; round++) {
      await consumeAll();
    }
    const replicated = async (): Promise<boolean> => {
      const counts = await Promise.all(affected.map((subject) => countOnReplica(successor, subject)));
      return counts.every((count) => count === rounds);
    };
    await waitFor(replicated, 'the replica has all counts');
    const roundsBefore = rounds;
    await failed.kill();
    await waitFor(
      async () => {
        await consumeAll();
        return affected.every((subject) => isOn(subject, successor)) && !store.degraded;
      },
      'the replica has taken over',
      HEALED,
    );
    const countsBefore = await Promise.all(affected.map((subject) => countOf(successor, subject)));
    for (const count of countsBefore) {
      expect(count).toBeGreaterThanOrEqual(roundsBefore);
      expect(count).toBeLessThanOrEqual(rounds);
    }
    await consumeAll();
    expect(await Promise.all(affected.map((subject) => countOf(successor, subject)))).toEqual(
      countsBefore.map((count) => count + 1),
    );
    for (const subject of others) {
      const server = primaries.find((primary) => isOn(subject, primary))!;
      expect(await countOf(server, subject)).toBe(rounds);
    }
    expect(logged.filter((line) => line.includes('unavailable'))).toEqual([
      expect.stringContaining(`Redis node 127.0.0.1:${failed.port} unavailable`),
    ]);
  });

  it('logs nothing while a replica node is unreachable', async () => {
    // Longer than the test, so that the cluster keeps the replica.
    const flags = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '120000'];
    const [primary, replica] = [await startRedis(flags), await startRedis(flags)];
    await formCluster([primary]);
    await replicate(replica, primary);
    const store = await storeOn(primary.url, replica.url);
    await replica.kill();
    const [redis] = clients as [LimitRedis];
    // What the client reports each time when it happens to ask this node for the slots.
    for (let attempt = 0; attempt < 5; attempt++) {
      redis.emit('node error', new Error('connect ECONNREFUSED'), `127.0.0.1:${replica.port}`);
    }
    expect((await store.consume('key:a', ROOMY)).outcome).toBe('admitted');
    expect(logged).toEqual([]);
    expect(store.degraded).toBe(false);
  });

  it('CLUSTERDOWN: counts in memory while the cluster lacks a shard', async () => {
    const flags = [
      '--cluster-enabled',
      'yes',
      '--cluster-node-timeout',
      '1000',
      '--cluster-require-full-coverage',
      'yes',
    ];
    const primaries = (await Promise.all([1, 2, 3].map(() => startRedis(flags)))) as [
      RedisServer,
      RedisServer,
      RedisServer,
    ];
    await formCluster(primaries);
    const store = await storeOn(...primaries.map(({ url }) => url));
    const [removed] = primaries;
    await administrate(removed, (admin) => admin.call('CLUSTER', 'DELSLOTSRANGE', '0', '5000'));
    await waitFor(
      async () => {
        const verdicts = await Promise.all(
          Array.from({ length: 30 }, async (_, number) => store.consume(`key:${number}`, ROOMY)),
        );
        expect(new Set(verdicts.map(({ outcome }) => outcome))).toEqual(new Set(['admitted']));
        return store.degraded;
      },
      'the store is degraded',
      HEALED,
    );
    await administrate(removed, (admin) => admin.call('CLUSTER', 'ADDSLOTSRANGE', '0', '5000'));
    await waitFor(() => !store.degraded, 'the store is not degraded', HEALED);
    expect(new Set(logged.filter((line) => line.includes('unavailable'))).size).toBeLessThanOrEqual(primaries.length);
  });

  async function replicate(replica: RedisServer, primary: RedisServer): Promise<void> {
    const id = await administrate(primary, (admin) => admin.call('CLUSTER', 'MYID') as Promise<string>);
    await administrate(replica, async (admin) => {
      await admin.call('CLUSTER', 'MEET', '127.0.0.1', String(primary.port));
      await waitFor(async () => String(await admin.call('CLUSTER', 'NODES')).includes(id), 'the nodes have met');
      await admin.call('CLUSTER', 'REPLICATE', id);
      const isUp = async (): Promise<boolean> => (await admin.info('replication')).includes('master_link_status:up');
      await waitFor(isUp, 'the replica is connected');
    });
    await waitFor(
      async () =>
        String(await administrate(primary, (admin) => admin.call('CLUSTER', 'NODES'))).includes(`slave ${id}`),
      'the primary knows its replica',
    );
  }

  /** A replica redirects commands unless the connection asks to read from it. */
  async function countOnReplica(server: RedisServer, subject: string): Promise<number> {
    return administrate(server, async (admin) => {
      await admin.readonly();
      return Number(await admin.hget(redisKeyOf(subject), 'du'));
    });
  }
});
