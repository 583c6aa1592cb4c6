import { insertKey } from '../helpers/builders.js';
import { describeWithRedis, RedisServer, SERVICE_COMMANDS } from '../helpers/redis-server.js';
import { createServiceLogin, type ServiceLogin } from '../helpers/service-login.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

/** A part of each password that is the same in all encodings. */
const STEM = 'correct-horse';
const PASSWORD = `${STEM}:@/ü%`;

/** @returns the URL with these credentials, encoded */
function withLogin(url: string, user: string, password: string): string {
  return Object.assign(new URL(url), { username: user, password: encodeURIComponent(password) }).href;
}

describeWithRedis('the passwords of DATABASE_URL and REDIS_URL', () => {
  let database: TestDatabase;
  let login: ServiceLogin;
  let redis: RedisServer;
  let key: string;

  beforeAll(async () => {
    database = await createTestDatabase();
    ({ key } = await insertKey(database.db));
    login = await createServiceLogin(database);
    const rights = ['~petstore:*', 'resetchannels', ...SERVICE_COMMANDS];
    redis = await RedisServer.start(['--user', 'petstore_app', 'on', `>${PASSWORD}`, ...rights]);
    await usePasswords(PASSWORD);
  });
  afterAll(async () => {
    await login.drop();
    await database.drop();
    await redis.stop();
  });

  /** Of both servers, from the next connection on. */
  async function usePasswords(password: string): Promise<void> {
    await database.db.query(`ALTER ROLE ${login.role} PASSWORD '${password}'`);
    await redis.administrate((admin) => admin.acl('SETUSER', 'petstore_app', 'resetpass', `>${password}`));
  }

  const start = (): Promise<ServiceProcess> =>
    ServiceProcess.start({
      DATABASE_URL: withLogin(database.url, login.role, PASSWORD),
      REDIS_URL: withLogin(redis.url, 'petstore_app', PASSWORD),
      LOG_LEVEL: 'trace',
    });

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

  it('are not printed when PostgreSQL rejects the login at start', async () => {
    await usePasswords('another');
    const failure = await start().catch(String);
    await usePasswords(PASSWORD);
    expect(failure).toMatch(/password authentication failed.*\(28P01\)/);
    expect(failure).not.toContain(STEM);
  });

  it('are not printed when logins fail while the service runs', async () => {
    const service = await start();
    // It has connections, and knows the key.
    await untilLogged(service, /"status":200/);
    await usePasswords('another');
    try {
      // Redis first: without the database no key can be verified, and nothing is counted.
      await redis.administrate((admin) => admin.client('KILL', 'USER', 'petstore_app'));
      await untilLogged(service, /WRONGPASS/);
      await database.db.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1', [
        login.role,
      ]);
      await untilLogged(service, /password authentication failed/);
    } finally {
      await usePasswords(PASSWORD);
      await service.stop();
    }
    expect(service.output).not.toContain(STEM);
  });
});
