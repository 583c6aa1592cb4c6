import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { describeWith } from '../helpers/describe-if.js';
import { openPool } from '../helpers/open-pool.js';
import { OwnPostgres } from '../helpers/own-postgres.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import type { TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const ROOT = join(__dirname, '..', '..');

describe('deploy/make-secrets.sh', () => {
  const folder = useTemporaryFolder('make-secrets');
  const secrets = join(folder, 'secrets');
  /** The folders of files that docker-compose.yml mounts. */
  const mounted = readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8').matchAll(/'?\.\/deploy\/([\w-]+)[/:]\S*:ro/g);
  const folders = [...new Set(Array.from(mounted, ([, name = '']) => join(folder, name)))];
  const run = (): Promise<unknown> => promisify(execFile)('sh', [join(folder, 'make-secrets.sh')]);
  const read = (name: string): string => readFileSync(join(secrets, name), 'utf8').trim();
  const all = (): string[] => readdirSync(secrets).map(read);

  beforeAll(async () => {
    copyFileSync(join(ROOT, 'deploy', 'make-secrets.sh'), join(folder, 'make-secrets.sh'));
    for (const path of folders) {
      // As in a clone that only its owner can read.
      mkdirSync(path, { mode: 0o700 });
      writeFileSync(join(path, 'file'), '', { mode: 0o600 });
    }
    await run();
  });

  it('writes different passwords, and replaces none', async () => {
    const urls = ['owner_database_url', 'service_database_url', 'redis_url'].map(
      (name) => new URL(read(name)).password,
    );
    const passwords = [read('postgres_password'), read('grafana_password'), ...urls];
    expect(new Set(passwords.filter((password) => /^[\w-]{32}$/.test(password))).size).toBe(passwords.length);
    expect(read('redis_password')).toBe(urls[2]);
    const before = all();
    await run();
    expect(all()).toEqual(before);
  });

  it('lets every user read what containers mount', () => {
    expect(folders.length).toBeGreaterThan(4);
    for (const path of folders) {
      expect([statSync(path).mode & 0o777, statSync(join(path, 'file')).mode & 0o777]).toEqual([0o755, 0o644]);
    }
    expect(statSync(secrets).mode & 0o777).toBe(0o700);
  });

  describeWithRedis('makes users of Redis', () => {
    it('with which counts survive a restart, and without which nothing can be read', async () => {
      const persistent = ['--appendonly', 'yes', '--appendfsync', 'always'];
      const flags = ['--aclfile', join(secrets, 'redis_users'), ...persistent];
      const server = await RedisServer.start(flags, `petstore:${read('redis_password')}@`);
      const redis = server.connect();
      // What a script writes is a transaction in the file.
      const script = `redis.call('HSET', KEYS[1], 'minute', 1) redis.call('PEXPIRE', KEYS[1], 60000)`;
      await redis.eval(script, 1, 'petstore:a');
      await server.kill();
      await server.restart();
      expect(await redis.hget('petstore:a', 'minute')).toBe('1');
      const anonymous = new Redis(server.port, { enableReadyCheck: false });
      anonymous.on('error', () => undefined);
      await expect(anonymous.get('petstore:a')).rejects.toThrow('NOAUTH');
      anonymous.disconnect();
      redis.disconnect();
      await server.stop();
    });
  });
});

/** Stands in for Compose: runs psql on the server of the test. */
const DOCKER = `#!/bin/sh
[ "$2" = version ] && exit
exec psql --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 "$TEST_URL"
`;
/** Not the script's, although its name begins alike. */
const FOREIGN = 'petstore_application';

describeWith('psql')('deploy/rotate-password.sh', () => {
  const folder = useTemporaryFolder('rotate');
  const secret = join(folder, 'deploy', 'secrets', 'service_database_url');
  let database: TestDatabase;

  beforeAll(async () => {
    database = await OwnPostgres.create();
    for (const role of ['petstore_app', FOREIGN]) {
      await database.db.query(`CREATE ROLE ${role} LOGIN PASSWORD 'old' IN ROLE petstore_service`);
    }
    mkdirSync(join(folder, 'deploy', 'secrets'), { recursive: true });
    copyFileSync(join(ROOT, 'deploy', 'rotate-password.sh'), join(folder, 'deploy', 'rotate-password.sh'));
    writeFileSync(secret, 'postgresql://petstore_app:old@postgres:5432/petstore\n');
    writeFileSync(join(folder, 'docker'), DOCKER, { mode: 0o755 });
    writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 });
  });
  afterAll(() => database.drop());

  const rotate = (step: string): Promise<{ stdout: string }> =>
    promisify(execFile)('sh', [join(folder, 'deploy', 'rotate-password.sh'), step], {
      env: { PATH: `${folder}:${process.env.PATH}`, TEST_URL: database.url },
    });

  it('replaces the login of the service, and drops the old one, and no other role, when it is unused', async () => {
    const before = openPool({ connectionString: loginUrl('petstore_app', 'old'), max: 1 });
    await before.query('SELECT 1');
    await rotate('service');
    const { username, password } = new URL(readFileSync(secret, 'utf8'));
    expect(username).toMatch(/^petstore_app_\d{14}$/);
    await expect(rotate('finish')).rejects.toThrow(/error: petstore_app is still in use/);
    expect(await roles()).toEqual(['petstore_app', FOREIGN, username].sort());

    await before.end();
    const after = openPool({ connectionString: loginUrl(username, password), max: 1 });
    await after.query('SELECT FROM orders');
    await waitFor(
      async () =>
        (await database.db.query("SELECT FROM pg_stat_activity WHERE usename = 'petstore_app'")).rowCount === 0,
      'the last session has ended',
    );
    expect((await rotate('finish')).stdout).toBe(`Dropped petstore_app; the service logs in as ${username}.\n`);
    expect(await roles()).toEqual([FOREIGN, username].sort());
    await after.end();
  });

  function loginUrl(role: string, password: string): string {
    return Object.assign(new URL(database.url), { username: role, password }).href;
  }

  async function roles(): Promise<string[]> {
    const { rows } = await database.db.query<{ rolname: string }>(
      "SELECT rolname FROM pg_roles WHERE rolname LIKE 'petstore_app%'",
    );
    return rows.map(({ rolname }) => rolname).sort();
  }
});
