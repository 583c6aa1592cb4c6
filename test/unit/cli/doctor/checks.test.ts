import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CHECKS } from '../../../../src/cli/doctor/checks.js';
import { MIGRATIONS } from '../../../../src/cli/doctor/expected-migrations.js';
import type { Facts, RedisNodeFacts, RoleFacts, SchemaFacts, ServerFacts } from '../../../../src/cli/doctor/facts.js';
import type { Finding } from '../../../../src/cli/doctor/finding.js';
import { loadConfig } from '../../../../src/config/load-config.js';

const SERVER: ServerFacts = {
  address: 'db:5432',
  isEmbedded: false,
  version: '18.4',
  versionNumber: 180_004,
  database: 'petstore',
  isStandby: false,
  isReadOnly: false,
  clockDifferenceMs: 3,
  connectionLimit: 97,
  processes: 1,
  isPooled: false,
  startProblems: [],
};
const SCHEMA: SchemaFacts = {
  applied: Object.keys(MIGRATIONS),
  failed: [],
  withoutObjects: [],
  disabledTriggers: [],
  hasRowSecurity: false,
};
const ROLE: RoleFacts = {
  role: 'app',
  isOwner: false,
  isEmbedded: false,
  isMember: true,
  examined: 'app',
  attributes: [],
  memberships: [],
  tables: [],
  usesSchema: true,
  createsInSchema: false,
};
const REDIS: RedisNodeFacts = {
  address: 'redis:6379',
  clockDifferenceMs: 0,
  version: '8.0.0',
  isReplica: false,
  evictionPolicy: 'noeviction',
  memoryLimitBytes: 1_000,
  memoryUsedBytes: 100,
  hasAppendOnlyFile: true,
  hasSnapshots: false,
  lastWriteFailed: false,
};
const CONFIG = loadConfig({ DATABASE_URL: 'postgresql://app@db/petstore', REDIS_URL: 'redis://redis' });
const ENDPOINT = { name: 'PostgreSQL', encryption: 'none', isNearby: true } as const;
const STANDBY = { variable: 'DATABASE_REPLICA_URL', address: 'standby:5432', problem: undefined };
const DISK = { folder: '/app/.data', freeBytes: 2 ** 34, isWritable: true };

const FACTS: Facts = {
  configuration: { problems: [], config: CONFIG, invalid: new Set() },
  server: { value: SERVER },
  otherServers: [STANDBY],
  schema: { value: SCHEMA },
  role: { value: ROLE },
  expiringKeys: { value: { count: 0, keys: [] } },
  redis: { value: [REDIS] },
  endpoints: [ENDPOINT],
  port: { value: { address: '127.0.0.1:3000', listener: 'none' } },
  metricsPort: { value: { address: '127.0.0.1:9464', listener: 'service' } },
  disk: { value: DISK },
};

const server = (facts: Partial<ServerFacts>): Partial<Facts> => ({ server: { value: { ...SERVER, ...facts } } });
const schema = (facts: Partial<SchemaFacts>): Partial<Facts> => ({ schema: { value: { ...SCHEMA, ...facts } } });
const role = (facts: Partial<RoleFacts>): Partial<Facts> => ({ role: { value: { ...ROLE, ...facts } } });
const redis = (...nodes: Partial<RedisNodeFacts>[]): Partial<Facts> => ({
  redis: { value: nodes.map((node) => ({ ...REDIS, ...node })) },
});
const withoutRedis = { ...FACTS.configuration, config: { ...CONFIG, redisUrls: [] } };
const pooled = { ...FACTS.configuration, config: { ...CONFIG, transactionPooler: true } };
const newest = Object.keys(MIGRATIONS).at(-1)!;

function findingOf(name: string, facts: Partial<Facts>): Finding {
  const check = CHECKS.find((each) => each.name === name);
  return check!.evaluate({ ...FACTS, ...facts });
}

it('finds nothing in a deployment without problems', () => {
  const findings = CHECKS.map(({ evaluate }) => evaluate(FACTS));
  expect(findings.filter(({ status }) => status !== 'ok')).toEqual([]);
});

test.each<[string, string, Partial<Facts>, string, string]>([
  ['database', 'a standby', server({ isStandby: true }), 'error', '"petstore" at db:5432 is a standby'],
  ['database', 'read-only', server({ isReadOnly: true }), 'error', 'default_transaction_read_only'],
  ['PostgreSQL version', '13', server({ version: '13.2', versionNumber: 130_002 }), 'error', '13.2 is too old'],
  ['migrations', 'a missing record', schema({ applied: SCHEMA.applied?.slice(0, -1) }), 'error', `missing: ${newest}`],
  ['migrations', 'no record', schema({ applied: undefined, withoutObjects: [newest] }), 'error', `missing: ${newest}`],
  ['migrations', 'a failed one', schema({ failed: [newest] }), 'error', `failed: ${newest}`],
  ['migrations', 'dropped objects', schema({ withoutObjects: [newest] }), 'error', 'its objects are missing'],
  ['migrations', 'newer ones', schema({ applied: [...SCHEMA.applied!, '2099'] }), 'warning', '1 that this version'],
  ['role', 'an owner', role({ isOwner: true }), 'warning', '"app" owns the tables'],
  ['role', 'no service role', role({ isOwner: true, examined: undefined }), 'warning', 'no role petstore_service'],
  ['role', 'no USAGE', role({ usesSchema: false }), 'error', 'lacks USAGE ON SCHEMA public'],
  ['role', 'CREATE', role({ createsInSchema: true }), 'warning', 'CREATE ON SCHEMA public'],
  [
    'connection limit',
    'too few',
    server({ connectionLimit: 18 }),
    'error',
    'only 18 connections for 1 running (19 each)',
  ],
  ['connection limit', 'too few for one more', server({ connectionLimit: 47 }), 'warning', 'rolling update'],
  ['connection limit', 'just enough', server({ connectionLimit: 48 }), 'ok', '48 connections for 1 running'],
  ['connection limit', 'a pooler', server({ isPooled: true }), 'skipped', 'the pooler limits the connections'],
  ['pooler', 'session pooling', server({ isPooled: true }), 'ok', 'session pooling'],
  [
    'pooler',
    'no session',
    server({ isPooled: true, startProblems: ['Set DATABASE_POOLER'] }),
    'error',
    'rejects at start',
  ],
  ['pooler', 'one of the replica', server({ startProblems: ['Set DATABASE_POOLER'] }), 'error', 'rejects at start'],
  ['pooler', 'the setting', { ...server({ isPooled: true }), configuration: pooled }, 'ok', 'transaction pooling'],
  ['pooler', 'the setting, but no pooler', { configuration: pooled }, 'warning', 'although DATABASE_POOLER is set'],
  ['other servers', 'none', { otherServers: [] }, 'skipped', 'neither DATABASE_DIRECT_URL nor'],
  [
    'other servers',
    'a primary',
    { otherServers: [{ ...STANDBY, problem: 'x is not a standby' }] },
    'warning',
    'DATABASE_REPLICA_URL: x is not a standby',
  ],
  ['clock of PostgreSQL', '1 s ahead', server({ clockDifferenceMs: 1_000 }), 'ok', 'within a second'],
  ['clock of PostgreSQL', '2 s ahead', server({ clockDifferenceMs: 2_000 }), 'warning', '2 s ahead of PostgreSQL'],
  ['clock of PostgreSQL', 'a day behind', server({ clockDifferenceMs: -86_400_000 }), 'error', '1 d behind PostgreSQL'],
  ['clock of Redis', 'one of two nodes', redis({}, { clockDifferenceMs: -60_000 }), 'error', '1 min behind Redis'],
  ['Redis', 'a replica', redis({ isReplica: true }), 'error', 'redis:6379 is a replica'],
  ['Redis', 'a cluster', redis({}, {}, {}), 'ok', 'cluster of 3 primaries'],
  [
    'Redis',
    'two processes without Redis',
    { ...server({ processes: 2 }), configuration: withoutRedis },
    'warning',
    '2 processes count',
  ],
  ['Redis', 'one process without Redis', { configuration: withoutRedis }, 'ok', 'not configured'],
  ['Redis eviction', 'a limit', redis({}, { evictionPolicy: 'volatile-ttl' }), 'error', 'volatile-ttl on redis:6379'],
  [
    'Redis eviction',
    'no limit',
    redis({ evictionPolicy: 'allkeys-lru', memoryLimitBytes: 0 }),
    'warning',
    'without maxmemory',
  ],
  ['Redis eviction', 'full memory', redis({ memoryUsedBytes: 900 }), 'warning', 'nearly full'],
  ['Redis persistence', 'failed writes', redis({ lastWriteFailed: true }), 'error', 'could not write'],
  [
    'Redis persistence',
    'snapshots',
    redis({ hasAppendOnlyFile: false, hasSnapshots: true }),
    'warning',
    'snapshots only',
  ],
  ['Redis persistence', 'nothing', redis({ hasAppendOnlyFile: false }), 'warning', 'persists nothing'],
  [
    'Redis persistence',
    'unknown',
    redis({ hasAppendOnlyFile: false, hasSnapshots: undefined }),
    'warning',
    'no append-only',
  ],
  ['TLS', 'nothing configured', { endpoints: [] }, 'skipped', 'no server'],
  ['TLS', 'plain text', { endpoints: [{ ...ENDPOINT, isNearby: false }] }, 'warning', 'PostgreSQL not encrypted'],
  [
    'TLS',
    'any certificate',
    { endpoints: [{ ...ENDPOINT, encryption: 'unverified', isNearby: false }] },
    'warning',
    'without verifying',
  ],
  [
    'TLS',
    'a verified certificate',
    { endpoints: [{ ...ENDPOINT, encryption: 'verified', isNearby: false }] },
    'ok',
    'PostgreSQL: encrypted',
  ],
  [
    'port',
    'an unready service',
    { port: { value: { address: 'x:1', listener: 'unready service' } } },
    'warning',
    'not ready',
  ],
  [
    'metrics port',
    'another program',
    { metricsPort: { value: { address: 'x:1', listener: 'other' } } },
    'error',
    'another program',
  ],
  ['disk', '1 MiB free', { disk: { value: { ...DISK, freeBytes: 2 ** 20 } } }, 'error', 'only 1 MiB free'],
  ['disk', '512 MiB free', { disk: { value: { ...DISK, freeBytes: 2 ** 29 } } }, 'warning', 'only 512 MiB free'],
  ['disk', 'a read-only folder', { disk: { value: { ...DISK, isWritable: false } } }, 'error', 'not writable'],
  [
    'expiring keys',
    'many',
    { expiringKeys: { value: { count: 7, keys: [{ id: 'a', expiresAt: new Date(0) }] } } },
    'warning',
    '7 keys expire',
  ],
])('%s with %s', (name, _case, facts, status, message) => {
  const finding = findingOf(name, facts);
  expect(finding).toMatchObject({ status, message: expect.stringContaining(message) as unknown });
  expect(finding.remedy !== null).toBe(status === 'warning' || status === 'error');
});

it('skips every check whose fact is unknown, and says why', () => {
  const unknown = { reason: 'database unreachable' };
  const facts: Partial<Facts> = { server: unknown, schema: unknown, role: unknown, expiringKeys: unknown };
  const skipped = CHECKS.filter(({ evaluate }) => evaluate({ ...FACTS, ...facts }).status === 'skipped');
  expect(skipped.map(({ name }) => name)).toEqual([
    'database',
    'PostgreSQL version',
    'migrations',
    'triggers',
    'role',
    'connection limit',
    'pooler',
    'clock of PostgreSQL',
    'expiring keys',
  ]);
  expect(findingOf('migrations', facts).message).toBe('not checked: database unreachable');
});

it('has every migration of prisma/migrations', () => {
  const folder = join(__dirname, '..', '..', '..', '..', 'prisma', 'migrations');
  const names = readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [entry.name] : [],
  );
  expect(Object.keys(MIGRATIONS)).toEqual(names.sort());
});
