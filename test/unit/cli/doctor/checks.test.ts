import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Configuration, configurationFinding } from '../../../../src/cli/doctor/configuration.js';
import { MIGRATIONS } from '../../../../src/cli/doctor/expected-migrations.js';
import { expiringKeysFinding } from '../../../../src/cli/doctor/expiring-keys.js';
import type { Findings } from '../../../../src/cli/doctor/finding.js';
import { diskFinding, portFinding } from '../../../../src/cli/doctor/host.js';
import { otherServersFinding, tlsFinding } from '../../../../src/cli/doctor/other-servers.js';
import { redisFindings, type RedisNode, withoutRedisFinding } from '../../../../src/cli/doctor/redis.js';
import { type RoleFacts, roleFinding } from '../../../../src/cli/doctor/role.js';
import { type SchemaFacts, schemaFindings } from '../../../../src/cli/doctor/schema.js';
import { type Server, serverFindings } from '../../../../src/cli/doctor/server.js';
import { loadConfig } from '../../../../src/config/load-config.js';

const SERVER: Server = {
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
};
const SCHEMA: SchemaFacts = {
  applied: Object.keys(MIGRATIONS),
  failed: [],
  withoutObjects: [],
  wrongTriggers: [],
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
  privileges: [],
  usesSchema: true,
  createsInSchema: false,
};
const REDIS: RedisNode = {
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
const ENDPOINT = { name: 'PostgreSQL', encryption: 'not encrypted', isNearby: true } as const;
const STANDBY = { variable: 'DATABASE_REPLICA_URL', address: 'standby:5432', problem: undefined as string | undefined };

const CONFIGURATION: Configuration = { problems: [], config: CONFIG, invalid: new Set() };

const server = (facts: Partial<Server> = {}, settings = {}, startProblems: readonly string[] = []): Findings =>
  serverFindings({ ...SERVER, ...facts }, { ...CONFIG, ...settings }, startProblems);
const schema = (facts: Partial<SchemaFacts> = {}): Findings => schemaFindings({ ...SCHEMA, ...facts });
const role = (facts: Partial<RoleFacts> = {}): Findings => ({ role: roleFinding({ ...ROLE, ...facts }) });
const redis = (...nodes: Partial<RedisNode>[]): Findings => redisFindings(nodes.map((node) => ({ ...REDIS, ...node })));
const others = (...servers: Partial<typeof STANDBY>[]): Findings => ({
  'other servers': otherServersFinding(servers.map((each) => ({ ...STANDBY, ...each }))),
});
const tls = (...endpoints: Partial<Parameters<typeof tlsFinding>[0][0]>[]): Findings => ({
  TLS: tlsFinding(endpoints.map((endpoint) => ({ ...ENDPOINT, ...endpoint }))),
});
const privilege = (object: string, name: string, columns: readonly string[] = []): Findings =>
  role({ privileges: [{ object, privilege: name, whole: columns.length === 0, columns }] });
const pooled = { transactionPooler: true };
const newest = Object.keys(MIGRATIONS).at(-1)!;

it('finds nothing in a deployment without problems', () => {
  const findings = {
    configuration: configurationFinding(CONFIGURATION),
    ...server(),
    ...schema(),
    ...role(),
    ...others({}),
    ...redis({}),
    ...tls({}),
    port: portFinding('PORT', '127.0.0.1:3000', 'none'),
    'metrics port': portFinding('METRICS_PORT', '127.0.0.1:9464', 'service'),
    disk: diskFinding('/app/.data', 2 ** 34, true),
    'expiring keys': expiringKeysFinding([]),
  };
  expect(Object.entries(findings).filter(([, { status }]) => status !== 'ok')).toEqual([]);
});

test.each<[string, string, Findings, string, string]>([
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
  ['role', 'a table', privilege('orders', 'INSERT'), 'warning', 'more than it needs: INSERT ON orders'],
  [
    'role',
    'a column',
    privilege('api_keys', 'UPDATE', ['plan', 'last_used_at']),
    'warning',
    'needs: UPDATE (plan) ON api_keys',
  ],
  ['role', 'a sequence', privilege('SEQUENCE orders_id_seq', 'USAGE'), 'warning', 'USAGE ON SEQUENCE orders_id_seq'],
  ['role', 'a function', privilege('FUNCTION f()', 'EXECUTE'), 'warning', 'EXECUTE ON FUNCTION f()'],
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
  ['pooler', 'no session', server({ isPooled: true }, {}, ['Set DATABASE_POOLER']), 'error', 'rejects at start'],
  ['pooler', 'one of the replica', server({}, {}, ['Set DATABASE_POOLER']), 'error', 'rejects at start'],
  ['pooler', 'the setting', server({ isPooled: true }, pooled), 'ok', 'transaction pooling'],
  ['pooler', 'the setting, but no pooler', server({}, pooled), 'warning', 'although DATABASE_POOLER is set'],
  ['other servers', 'none', others(), 'skipped', 'neither DATABASE_DIRECT_URL nor'],
  [
    'other servers',
    'a primary',
    others({ problem: 'x is not a standby' }),
    'warning',
    'DATABASE_REPLICA_URL: x is not a standby',
  ],
  ['clock of PostgreSQL', '1 s ahead', server({ clockDifferenceMs: 1_000 }), 'ok', 'within a second'],
  ['clock of PostgreSQL', '2 s ahead', server({ clockDifferenceMs: 2_000 }), 'warning', '2 s ahead of PostgreSQL'],
  ['clock of PostgreSQL', 'a day behind', server({ clockDifferenceMs: -86_400_000 }), 'error', '1 d behind PostgreSQL'],
  ['clock of Redis', 'one of two nodes', redis({}, { clockDifferenceMs: -60_000 }), 'error', '1 min behind Redis'],
  ['Redis', 'a replica', redis({ isReplica: true }), 'error', 'redis:6379 is a replica'],
  ['Redis', 'a cluster', redis({}, {}, {}), 'ok', 'cluster of 3 primaries'],
  ['Redis', 'two processes without Redis', { Redis: withoutRedisFinding(2) }, 'warning', '2 processes count'],
  ['Redis', 'one process without Redis', { Redis: withoutRedisFinding(1) }, 'ok', 'not configured'],
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
  ['TLS', 'nothing configured', tls(), 'skipped', 'no server'],
  ['TLS', 'plain text', tls({ isNearby: false }), 'warning', 'PostgreSQL not encrypted'],
  [
    'TLS',
    'any certificate',
    tls({ encryption: 'encrypted without verifying the certificate', isNearby: false }),
    'warning',
    'without verifying',
  ],
  ['TLS', 'a verified certificate', tls({ encryption: 'encrypted', isNearby: false }), 'ok', 'PostgreSQL: encrypted'],
  ['port', 'an unready service', { port: portFinding('PORT', 'x:1', 'unready service') }, 'warning', 'not ready'],
  [
    'metrics port',
    'another program',
    { 'metrics port': portFinding('METRICS_PORT', 'x:1', 'other') },
    'error',
    'another program',
  ],
  ['disk', '1 MiB free', { disk: diskFinding('/app/.data', 2 ** 20, true) }, 'error', 'only 1 MiB free'],
  ['disk', '512 MiB free', { disk: diskFinding('/app/.data', 2 ** 29, true) }, 'warning', 'only 512 MiB free'],
  ['disk', 'a read-only folder', { disk: diskFinding('/app/.data', 2 ** 34, false) }, 'error', 'not writable'],
  [
    'expiring keys',
    'many',
    { 'expiring keys': expiringKeysFinding([{ id: 'a', expiresAt: new Date(0), count: 7 }]) },
    'warning',
    '7 keys expire',
  ],
])('%s with %s', (name, _case, findings, status, message) => {
  const finding = findings[name]!;
  expect(finding).toMatchObject({ status, message: expect.stringContaining(message) as unknown });
  expect(finding.remedy !== null).toBe(status === 'warning' || status === 'error');
});

it('has every migration of prisma/migrations', () => {
  const folder = join(__dirname, '..', '..', '..', '..', 'prisma', 'migrations');
  const names = readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [entry.name] : [],
  );
  expect(Object.keys(MIGRATIONS)).toEqual(names.sort());
});
