import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
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

async function start(url: string): Promise<ServiceProcess> {
  return ServiceProcess.start({ DATABASE_URL: url });
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
    await applyMigrations(db);
    await useCertificate('DNS:localhost,IP:127.0.0.1');
    await db.query(`ALTER SYSTEM SET ssl_ca_file = 'root.crt'`);
    await db.query('ALTER SYSTEM SET ssl = on');
    // The test itself connects without TLS, to another address.
    const rules = 'host all all 127.0.0.1/32 scram-sha-256';
    writeFileSync(
      join(folder, 'cluster', 'data', 'pg_hba.conf'),
      `hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n`,
    );
    appendFileSync(join(folder, 'cluster', 'data', 'pg_hba.conf'), `${rules}\n`);
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

  it('is rejected at start with one message when another authority issued its certificate', async () => {
    await expect(start(urlWith({ ...withClient(), sslrootcert: stranger.file }))).rejects.toThrow(
      /Invalid configuration:\n {2}- DATABASE_URL must lead to a server with which TLS can be established: self-signed certificate in certificate chain \(SELF_SIGNED_CERT_IN_CHAIN\)\n$/,
    );
  });

  it('is rejected at start with one message when its certificate is for another host', async () => {
    await useCertificate('DNS:elsewhere.example.com');
    await expect(start(urlWith(withClient()))).rejects.toThrow(
      /DATABASE_URL must lead to a server with which TLS can be established: .*localhost.*\(ERR_TLS_CERT_ALTNAME_INVALID\)\n$/,
    );
  });

  it('is rejected at start with one message when its certificate has expired', async () => {
    await useCertificate('DNS:localhost,IP:127.0.0.1', -1);
    await expect(start(urlWith(withClient()))).rejects.toThrow(
      /DATABASE_URL must lead to a server with which TLS can be established: .*\(CERT_HAS_EXPIRED\)\n$/,
    );
  });

  it('is rejected at start with one message when a certificate file is missing', async () => {
    const missing = join(folder, 'nothing-here.crt');
    await expect(start(urlWith({ ...withClient(), sslrootcert: missing }))).rejects.toThrow(
      `DATABASE_URL must name files that can be read (got "${missing}": ENOENT)`,
    );
  });

  it('is rejected at start with one message when it rejects the client certificate', async () => {
    await useCertificate('DNS:localhost,IP:127.0.0.1');
    const foreign = stranger.issue('petstore');
    await expect(start(urlWith({ sslcert: foreign.certificate, sslkey: foreign.key }))).rejects.toThrow(
      /DATABASE_URL must lead to a server with which TLS can be established: .*unknown ca/,
    );
    await expect(start(urlWith({}))).rejects.toThrow(
      'DATABASE_URL must contain a login that the server accepts: connection requires a valid client certificate (28000)',
    );
  });
});
