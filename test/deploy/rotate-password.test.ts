import { execFile } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openPool } from '../helpers/open-pool.js';
import { describeWith } from '../helpers/describe-with.js';
import { createIsolatedDatabase } from '../helpers/isolated-database.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import type { TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const SCRIPT = join(__dirname, '..', '..', 'deploy', 'rotate-password.sh');
/** Stands in for Compose: runs psql on the server of the test. */
const DOCKER = `#!/bin/sh
[ "$2" = version ] && exit
exec psql --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 "$TEST_URL"
`;
/** Roles that are not the script's, although their names begin alike. */
const FOREIGN = [
  'petstore_app_readonly_bi',
  'petstorexapplication',
  'petstore_app_20250101000000',
  'petstore_application',
];

describeWith('psql')('deploy/rotate-password.sh', () => {
  const folder = useTemporaryFolder('rotate');
  const secret = join(folder, 'deploy', 'secrets', 'service_database_url');
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createIsolatedDatabase();
    await database.db.query(`
      CREATE ROLE petstore_app LOGIN PASSWORD 'old' IN ROLE petstore_service;
      CREATE ROLE petstore_app_20250101000000 LOGIN;
      CREATE ROLE petstorexapplication LOGIN IN ROLE petstore_service;
      CREATE ROLE petstore_application LOGIN IN ROLE petstore_service;
      CREATE ROLE petstore_app_readonly_bi LOGIN IN ROLE petstore_service`);
    mkdirSync(join(folder, 'deploy', 'secrets'), { recursive: true });
    copyFileSync(SCRIPT, join(folder, 'deploy', 'rotate-password.sh'));
    writeFileSync(secret, 'postgresql://petstore_app:old@postgres:5432/petstore\n');
    // An interrupted run leaves a file that only root can write to; root cannot write to this one either.
    symlinkSync(join(folder, 'missing', 'file'), `${secret}.new`);
    writeFileSync(join(folder, 'docker'), DOCKER);
    chmodSync(join(folder, 'docker'), 0o755);
    writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 });
  });
  afterAll(() => database.drop());

  const rotate = (step: string): Promise<{ stdout: string }> =>
    promisify(execFile)('sh', [join(folder, 'deploy', 'rotate-password.sh'), step], {
      env: { PATH: `${folder}:${process.env.PATH}`, TEST_URL: database.url },
    });

  it('replaces the login of the service, drops the old one when it is unused, and no other role', async () => {
    const before = openPool({ connectionString: loginUrl('petstore_app', 'old'), max: 1 });
    await before.query('SELECT 1');
    await rotate('service');
    const { username, password } = new URL(readFileSync(secret, 'utf8'));
    expect(username).toMatch(/^petstore_app_\d{14}$/);
    await expect(rotate('finish')).rejects.toThrow(/error: petstore_app is still in use/);
    expect(await roles()).toEqual([...FOREIGN, 'petstore_app', username].sort());

    await before.end();
    const after = openPool({ connectionString: loginUrl(username, password), max: 1 });
    await after.query('SELECT FROM orders');
    await untilGone('petstore_app');
    expect((await rotate('finish')).stdout).toBe(`Dropped petstore_app; the service logs in as ${username}.\n`);
    expect(await roles()).toEqual([...FOREIGN, username].sort());
    await after.end();
  });

  it('drops no login whose container has just lost its connections', async () => {
    const current = new URL(readFileSync(secret, 'utf8')).username;
    await database.db.query("CREATE ROLE petstore_app LOGIN PASSWORD 'old' IN ROLE petstore_service");
    const [waits, goesOn] = [join(folder, 'waits'), join(folder, 'goes-on')];
    const sleep = `#!/bin/sh\necho "$1" >"${waits}"\nuntil [ -e "${goesOn}" ]; do :; done\n`;
    writeFileSync(join(folder, 'sleep'), sleep, { mode: 0o755 });
    const failure = rotate('finish').catch((error: unknown) => (error as Error).message);
    await waitFor(() => existsSync(waits) && readFileSync(waits, 'utf8') === '6\n', 'the second look is waited for');
    const reconnected = openPool({ connectionString: loginUrl('petstore_app', 'old'), max: 1 });
    await reconnected.query('SELECT 1');
    writeFileSync(goesOn, '');
    expect(await failure).toContain('error: petstore_app is still in use');
    expect(await roles()).toEqual([...FOREIGN, 'petstore_app', current].sort());
    await reconnected.end();
  });

  function loginUrl(role: string, password: string): string {
    return Object.assign(new URL(database.url), { username: role, password }).href;
  }

  async function untilGone(role: string): Promise<void> {
    await waitFor(
      async () => (await database.db.query('SELECT FROM pg_stat_activity WHERE usename = $1', [role])).rowCount === 0,
      'the last session has ended',
    );
  }

  async function roles(): Promise<string[]> {
    const { rows } = await database.db.query<{ rolname: string }>(
      "SELECT rolname FROM pg_roles WHERE rolname LIKE 'petstore_app%' OR rolname LIKE 'petstorex%'",
    );
    return rows.map(({ rolname }) => rolname).sort();
  }
});
