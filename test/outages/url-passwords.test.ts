import { chmodSync, chownSync, copyFileSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { insertKey } from '../helpers/builders.js';
import { CertificateAuthority } from '../helpers/certificates.js';
import { describeWith } from '../helpers/describe-with.js';
import { freePort } from '../helpers/free-port.js';
import { applyMigrations } from '../helpers/isolated-database.js';
import { openPool } from '../helpers/open-pool.js';
import { administrate, SERVICE_COMMANDS } from '../helpers/redis-limits.js';
import { RedisServer } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { waitFor } from '../helpers/wait-for.js';

/** A part of each password that is the same in all encodings. */
const STEM = 'correct-horse';
const PASSWORD = `${STEM}:@/ü%`;
const LOGIN = `petstore_app:${encodeURIComponent(PASSWORD)}@localhost`;

describeWith('redis-server', 'openssl')('the passwords of DATABASE_URL and REDIS_URL', () => {
  const folder = useTemporaryFolder('url-passwords');
  let postgres: PostgresServer;
  let redis: RedisServer;
  let redisPort: number;
  let db: pg.Pool;
  let key: string;
  /** Issues the certificates of both servers. */
  let authority: CertificateAuthority;
  let stranger: CertificateAuthority;

  beforeAll(async () => {
    chmodSync(folder, 0o755);
    authority = new CertificateAuthority(folder, 'authority');
    stranger = new CertificateAuthority(folder, 'stranger');
    mkdirSync(join(folder, 'postgres'), { mode: 0o755 });
    postgres = await PostgresServer.start({ folder: join(folder, 'postgres'), settings: { fsync: 'off' } });
    db = openPool({ connectionString: postgres.url('postgres'), max: 2 });
    await applyMigrations(db);
    ({ key } = await insertKey(db));
    await db.query('CREATE ROLE petstore_app LOGIN IN ROLE petstore_service');
    const { certificate, key: certificateKey } = authority.issue('redis', { hosts: 'DNS:localhost' });
    redisPort = await freePort();
    redis = await RedisServer.start([
      ...['--tls-port', String(redisPort), '--tls-auth-clients', 'no', '--tls-ca-cert-file', authority.file],
      ...['--tls-cert-file', certificate, '--tls-key-file', certificateKey],
      ...['--user', 'petstore_app', 'on', `>${PASSWORD}`, '~petstore:*', 'resetchannels', ...SERVICE_COMMANDS],
    ]);
    await usePasswords(PASSWORD);
    await useCertificates('localhost');
    await db.query('ALTER SYSTEM SET ssl = on');
    await db.query('SELECT pg_reload_conf()');
  });
  afterAll(async () => {
    await db.end();
    await Promise.all([postgres.stop(), redis.stop()]);
  });

  /** Of both servers, from the next connection on. */
  async function usePasswords(password: string): Promise<void> {
    await db.query(`ALTER ROLE petstore_app PASSWORD '${password}'`);
    await administrate(redis, (admin) => admin.acl('SETUSER', 'petstore_app', 'resetpass', `>${password}`));
  }

  /** Of both servers, from the next connection on. */
  async function useCertificates(host: string): Promise<void> {
    const issued = authority.issue(`server-${host}`, { hosts: `DNS:${host}` });
    const data = join(folder, 'postgres', 'cluster', 'data');
    const { uid, gid } = statSync(data);
    for (const [from, to] of [
      [issued.certificate, join(data, 'server.crt')],
      [issued.key, join(data, 'server.key')],
    ] as const) {
      copyFileSync(from, to);
      chmodSync(to, 0o600);
      chownSync(to, uid, gid);
    }
    await db.query('SELECT pg_reload_conf()');
    await administrate(redis, (admin) =>
      admin.config('SET', 'tls-cert-file', issued.certificate, 'tls-key-file', issued.key),
    );
  }

  const closeRedisConnections = (): Promise<unknown> =>
    administrate(redis, (admin) => admin.client('KILL', 'USER', 'petstore_app'));
  const closeConnections = (): Promise<unknown> =>
    db.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'petstore_app'");

  /** @param trusted who may have issued the certificate of PostgreSQL */
  function start(environment: Readonly<Record<string, string>> = {}, trusted = authority): Promise<ServiceProcess> {
    const { port } = new URL(postgres.url('postgres'));
    return ServiceProcess.start({
      DATABASE_URL: `postgresql://${LOGIN}:${port}/postgres?sslmode=verify-full&sslrootcert=${trusted.file}`,
      REDIS_URL: `rediss://${LOGIN}:${redisPort}`,
      NODE_EXTRA_CA_CERTS: authority.file,
      LOG_LEVEL: 'trace',
      ...environment,
    });
  }

  /** Waits, with requests, for a line of the log. */
  async function untilLogged(service: ServiceProcess, line: RegExp): Promise<void> {
    await waitFor(
      async () => {
        const headers = { Authorization: `Bearer ${key}` };
        await fetch(`${service.baseUrl}/v1/store/orders`, { headers }).then((response) => response.text());
        return line.test(service.output);
      },
      () => `${line} is logged: ${service.output.slice(-3_000)}`,
    );
  }

  it.each<[what: string, message: RegExp, trusted: () => CertificateAuthority, password: string]>([
    ['rejects the login', /password authentication failed.*\(28P01\)/, () => authority, 'another'],
    ['has an untrusted certificate', /TLS can be established: .*certificate/, () => stranger, PASSWORD],
  ])('are not printed when PostgreSQL %s at start', async (_what, message, trusted, password) => {
    await usePasswords(password);
    const failure = await start({}, trusted()).catch(String);
    await usePasswords(PASSWORD);
    expect(failure).toMatch(message);
    expect(failure).not.toContain(STEM);
  });

  it.each<[what: string, line: RegExp, environment: () => Record<string, string>]>([
    [
      'rejects the login',
      /WRONGPASS/,
      () => ({ REDIS_URL: `rediss://petstore_app:not-${STEM}@localhost:${redisPort}` }),
    ],
    ['has an untrusted certificate', /"msg":"[^"]*Redis[^"]*certificate/, () => ({ NODE_EXTRA_CA_CERTS: '' })],
  ])('are not printed when Redis %s at start', async (_what, line, environment) => {
    const service = await start(environment());
    await untilLogged(service, line).finally(() => service.stop());
    expect(service.output).not.toContain(STEM);
  });

  it.each<[what: string, change: () => Promise<void>, undo: () => Promise<void>, database: RegExp, ofRedis: RegExp]>([
    [
      'logins',
      () => usePasswords('another'),
      () => usePasswords(PASSWORD),
      /password authentication failed/,
      /WRONGPASS/,
    ],
    [
      'TLS handshakes',
      () => useCertificates('elsewhere.example.com'),
      () => useCertificates('localhost'),
      /"detail":[^,]*altnames/,
      /Redis.*altnames/i,
    ],
  ])('are not printed when %s fail while the service runs', async (_what, change, undo, database, ofRedis) => {
    const service = await start();
    await change();
    try {
      // Redis first: without the database no key can be verified, and nothing is counted.
      await closeRedisConnections();
      await untilLogged(service, ofRedis);
      await closeConnections();
      await untilLogged(service, database);
    } finally {
      await undo();
      await service.stop();
    }
    expect(service.output).not.toContain(STEM);
  });
});
