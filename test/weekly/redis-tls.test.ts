import { cancelOrder } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { CertificateAuthority } from '../helpers/certificates.js';
import { describeWith } from '../helpers/describe-if.js';
import { freePort } from '../helpers/free-port.js';
import { RedisServer, SERVICE_COMMANDS } from '../helpers/redis-server.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { useTestDatabase } from '../helpers/test-database.js';

describeWith('redis-server', 'openssl')('a Redis with TLS and ACL users', () => {
  const folder = useTemporaryFolder('redis-tls');
  const database = useTestDatabase();

  it('counts for a user with access to the keys and commands of the service only', async () => {
    const authority = new CertificateAuthority(folder, 'authority');
    const { certificate, key: certificateKey } = authority.issue('redis', { hosts: 'DNS:localhost' });
    const tlsPort = await freePort();
    const server = await RedisServer.start([
      ...['--tls-port', String(tlsPort), '--tls-auth-clients', 'no', '--tls-ca-cert-file', authority.file],
      ...['--tls-cert-file', certificate, '--tls-key-file', certificateKey],
      ...['--user', 'petstore', 'on', `>${PASSWORD}`, '~petstore:*', 'resetchannels', ...SERVICE_COMMANDS],
    ]);
    // The quota of the day ends the requests, because a minute may end between them.
    const { key } = await insertKey(database.db, { requests_per_minute: 100, requests_per_day: 2 });
    const start = (): Promise<ServiceProcess> =>
      ServiceProcess.start({
        DATABASE_URL: database.url,
        REDIS_URL: `rediss://petstore:${encodeURIComponent(PASSWORD)}@localhost:${tlsPort}`,
        NODE_EXTRA_CA_CERTS: authority.file,
      });
    const services = [await start(), await start()] as const;
    try {
      const statuses: number[] = [];
      for (const service of [...services, ...services]) {
        statuses.push((await cancelOrder(service.baseUrl, '1', key)).status);
      }
      expect(statuses).toEqual([404, 404, 429, 429]);
      for (const service of services) {
        expect(service.output).not.toContain('unavailable');
      }
      expect(await server.administrate((admin) => admin.keys('*'))).toHaveLength(1);
    } finally {
      await Promise.all([...services, server].map((each) => each.stop()));
    }
  });
});

/** With characters that a URL must encode. */
const PASSWORD = 'pa:ss@word';
