import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { CertificateAuthority } from '../helpers/certificates.js';
import { describeWith } from '../helpers/describe-with.js';
import { openPool } from '../helpers/open-pool.js';
import { petstore } from '../helpers/petstore.js';
import { deployByEngine } from '../helpers/prisma-migrate.js';
import { ServiceProcess } from '../helpers/service-process.js';

let folder: string;
let server: PostgresServer;
let db: pg.Pool;
let authority: CertificateAuthority;
let stranger: CertificateAuthority;
let client: { certificate: string; key: string };
let services: ServiceProcess[] = [];

/** Replaces the server's certificate; new connections get it. */
async function useCertificate(hosts: string, days?: number): Promise<void> {
  const issued = authority.issue('postgres', { hosts, ...(days === undefined ? {} : { days }) });
  const data = join(folder, 'cluster', 'data');
  const { uid, gid } = statSync(data);
  for (const [from, to] of [
    [issued.certificate, 'server.crt'],
    [issued.key, 'server.key'],
    [authority.file, 'root.crt'],
  ] as const) {
    copyFileSync(from, join(data, to));
    chmodSync(join(data, to), 0o600);
    chownSync(join(data, to), uid, gid);
  }
  await db.query('SELECT pg_reload_conf()');
}

function urlWith(parameters: Record<string, string>, host = 'localhost'): string {
  const url = new URL(server.url('postgres'));
  url.hostname = host;
  for (const [name, value] of Object.entries({ sslmode: 'verify-full', sslrootcert: authority.file, ...parameters })) {
    url.searchParams.set(name, value);
  }
  return url.href;
}

const withClient = (): Record<string, string> => ({ sslcert: client.certificate, sslkey: client.key });

async function start(url: string): Promise<ServiceProcess> {
  const service = await ServiceProcess.start({ DATABASE_URL: url });
  services.push(service);
  return service;
}

describeWith('openssl')('PostgreSQL with TLS, a private authority and client certificates', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-tls-'));
    chmodSync(folder, 0o755);
    authority = new CertificateAuthority(folder, 'authority');
    stranger = new CertificateAuthority(folder, 'stranger');
    client = authority.issue('petstore');
    server = await PostgresServer.start({ folder, settings: { fsync: 'off' } });
    db = openPool({ connectionString: server.url('postgres'), max: 2 });
    await useCertificate('DNS:localhost,IP:127.0.0.1');
    await db.query(`ALTER SYSTEM SET ssl_ca_file = 'root.crt'`);
    await db.query('ALTER SYSTEM SET ssl = on');
    // The test itself connects without TLS, to another address.
    writeFileSync(
      join(folder, 'cluster', 'data', 'pg_hba.conf'),
      `hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-full\nhost all all 127.0.0.1/32 scram-sha-256\n`,
    );
    await db.query('SELECT pg_reload_conf()');
  });
  // Also one that should have been rejected.
  afterEach(async () => {
    await Promise.all(services.map((service) => service.stop()));
    services = [];
  });
  afterAll(async () => {
    await db.end();
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  const HERE = 'DNS:localhost,IP:127.0.0.1';

  it('serves cancels and lists with sslmode=verify-full, after migrations with the same URL', async () => {
    await useCertificate(HERE);
    await deployByEngine(urlWith(withClient()));
    const [{ key }, id] = [await insertKey(db), await insertOrder(db)];
    const service = await start(urlWith(withClient()));
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
    expect((await listOrders(service.baseUrl, key)).status).toBe(200);
    const { rows } = await db.query(
      `SELECT bool_and(ssl) AS ssl, count(DISTINCT client_dn)::int AS clients FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
       WHERE application_name LIKE 'petstore-%'`,
    );
    expect(rows).toEqual([{ ssl: true, clients: 1 }]);
  });

  it('is rejected by commands and migrations when another authority issued its certificate', async () => {
    await useCertificate(HERE);
    const url = urlWith({ ...withClient(), sslrootcert: stranger.file });
    const { exitCode, stderr } = await petstore(['keys', 'list'], { DATABASE_URL: url });
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^error: .*self-signed certificate/)]);
    await expect(deployByEngine(url)).rejects.toThrow('self-signed certificate');
  });

  const NO_TLS = 'DATABASE_URL must point to a server with which TLS can be established: .*';
  it.each<[what: string, issued: [hosts: string, days?: number], parameters: () => Record<string, string>, RegExp]>([
    [
      'another authority issued its certificate',
      [HERE],
      () => ({ ...withClient(), sslrootcert: stranger.file }),
      new RegExp(`${NO_TLS}chain \\(SELF_SIGNED_CERT_IN_CHAIN\\)\n$`),
    ],
    [
      'its certificate is for another host',
      ['DNS:elsewhere.example.com'],
      withClient,
      new RegExp(`${NO_TLS}localhost.*\\(ERR_TLS_CERT_ALTNAME_INVALID\\)\n$`),
    ],
    ['its certificate has expired', [HERE, -1], withClient, new RegExp(`${NO_TLS}\\(CERT_HAS_EXPIRED\\)\n$`)],
    [
      'a certificate file is missing',
      [HERE],
      () => ({ ...withClient(), sslrootcert: '/nothing-here.crt' }),
      /DATABASE_URL must have valid parameters: ENOENT: .* '\/nothing-here\.crt'\n$/,
    ],
    [
      'its parameters contradict each other',
      [HERE],
      () => ({ uselibpqcompat: 'true', sslmode: 'verify-ca', sslrootcert: '' }),
      /DATABASE_URL must have valid parameters: .*sslrootcert/,
    ],
    [
      'it rejects the client certificate',
      [HERE],
      () => {
        const { certificate: sslcert, key: sslkey } = stranger.issue('petstore');
        return { sslcert, sslkey };
      },
      new RegExp(`${NO_TLS}unknown ca`),
    ],
    [
      'it requires a client certificate',
      [HERE],
      () => ({}),
      /DATABASE_URL must contain a login that the server accepts: connection requires a valid client certificate \(28000\)/,
    ],
  ])('is rejected at start with one message when %s', async (_what, [hosts, days], parameters, message) => {
    await useCertificate(hosts, days);
    await expect(start(urlWith(parameters()))).rejects.toThrow(message);
  });
});
