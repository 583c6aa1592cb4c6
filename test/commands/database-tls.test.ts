import { chmodSync, chownSync, copyFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { CertificateAuthority } from '../helpers/certificates.js';
import { describeWith } from '../helpers/describe-if.js';
import { openPool } from '../helpers/open-pool.js';
import { petstore } from '../helpers/petstore.js';
import { prismaMigrate } from '../helpers/prisma-migrate.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

describeWith('openssl')('PostgreSQL with TLS, a private authority and client certificates', () => {
  const folder = useTemporaryFolder('tls');
  let server: PostgresServer;
  let db: pg.Pool;
  let authority: CertificateAuthority;
  let stranger: CertificateAuthority;
  let client: { certificate: string; key: string };

  beforeAll(async () => {
    chmodSync(folder, 0o755);
    authority = new CertificateAuthority(folder, 'authority');
    stranger = new CertificateAuthority(folder, 'stranger');
    client = authority.issue('petstore');
    server = await PostgresServer.start({ folder, settings: { fsync: 'off' } });
    db = openPool({ connectionString: server.url('postgres'), max: 2 });
    installCertificate();
    await db.query(`ALTER SYSTEM SET ssl_ca_file = 'root.crt'`);
    await db.query('ALTER SYSTEM SET ssl = on');
    await db.query('SELECT pg_reload_conf()');
  });
  afterAll(async () => {
    await db.end();
    await server.stop();
  });

  function installCertificate(): void {
    const issued = authority.issue('postgres', { hosts: 'DNS:localhost,IP:127.0.0.1' });
    const data = join(folder, 'cluster', 'data');
    const { uid, gid } = statSync(data);
    const files = { 'server.crt': issued.certificate, 'server.key': issued.key, 'root.crt': authority.file };
    for (const [name, from] of Object.entries(files)) {
      copyFileSync(from, join(data, name));
      chmodSync(join(data, name), 0o600);
      chownSync(join(data, name), uid, gid);
    }
  }

  function urlWith(parameters: Record<string, string> = {}): string {
    const url = new URL(server.url('postgres'));
    url.hostname = 'localhost';
    const { certificate: sslcert, key: sslkey } = client;
    const all = { sslmode: 'verify-full', sslrootcert: authority.file, sslcert, sslkey, ...parameters };
    for (const [name, value] of Object.entries(all)) {
      url.searchParams.set(name, value);
    }
    return url.href;
  }

  it('sslmode=verify-full: migrations, cancels and lists work, each connection with TLS', async () => {
    await prismaMigrate('deploy', urlWith());
    const [{ key }, id] = [await insertKey(db), await insertOrder(db)];
    const service = await ServiceProcess.start({ DATABASE_URL: urlWith() });
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

  it('another authority issued its certificate: service, commands and migrations end with an error', async () => {
    const url = urlWith({ sslrootcert: stranger.file });
    // One that starts, by a bug, would keep Jest running.
    const started = ServiceProcess.start({ DATABASE_URL: url }).then((service) => service.stop());
    await expect(started).rejects.toThrow(
      /DATABASE_URL must point to a server with which TLS can be established: .*\(SELF_SIGNED_CERT_IN_CHAIN\)\n$/,
    );
    const { exitCode, stderr } = await petstore(['keys', 'list'], { DATABASE_URL: url });
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^error: .*self-signed certificate/)]);
    await expect(prismaMigrate('deploy', url)).rejects.toThrow('self-signed certificate');
  });
});
