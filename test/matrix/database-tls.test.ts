import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { CertificateAuthority } from '../helpers/certificates.js';
import { describeWith } from '../helpers/describe-with.js';
import { applyMigrations } from '../helpers/isolated-database.js';
import { openPool } from '../helpers/open-pool.js';
import { ServiceProcess } from '../helpers/service-process.js';

let folder: string;
let server: PostgresServer;
let db: pg.Pool;
let authority: CertificateAuthority;
let stranger: CertificateAuthority;
let client: { certificate: string; key: string };

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

const start = (url: string): Promise<ServiceProcess> => ServiceProcess.start({ DATABASE_URL: url });

describeWith('openssl')('PostgreSQL with TLS, a private authority and client certificates', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-tls-'));
    chmodSync(folder, 0o755);
    authority = new CertificateAuthority(folder, 'authority');
    stranger = new CertificateAuthority(folder, 'stranger');
    client = authority.issue('petstore');
    server = await PostgresServer.start({ folder, settings: { fsync: 'off' } });
    db = openPool({ connectionString: server.url('postgres'), max: 2 });
    await applyMigrations(db);
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
  afterAll(async () => {
    await db.end();
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  it('serves cancels and lists with sslmode=verify-full', async () => {
    await useCertificate('DNS:localhost,IP:127.0.0.1');
    const [{ key }, id] = [await insertKey(db), await insertOrder(db)];
    const service = await start(urlWith(withClient()));
    try {
      expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
      expect((await listOrders(service.baseUrl, key)).status).toBe(200);
      const { rows } = await db.query(
        `SELECT bool_and(ssl) AS ssl, count(DISTINCT client_dn)::int AS clients FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name LIKE 'petstore-%'`,
      );
      expect(rows).toEqual([{ ssl: true, clients: 1 }]);
    } finally {
      await service.stop();
    }
  });

  const NO_TLS = 'DATABASE_URL must point to a server with which TLS can be established: .*';
  const HERE = 'DNS:localhost,IP:127.0.0.1';
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
