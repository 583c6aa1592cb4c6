import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { describeIf } from '../helpers/describe-if.js';
import { describeWith } from '../helpers/describe-with.js';
import { openPool } from '../helpers/open-pool.js';
import { otherPostgres } from '../helpers/other-postgres.js';
import { petstore } from '../helpers/petstore.js';
import { deployByEngine } from '../helpers/prisma-migrate.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
const programs = otherPostgres(14);

const INSUFFICIENT_PRIVILEGE = '42501';
const CREATE_FUNCTION = "CREATE FUNCTION public.theirs() RETURNS integer LANGUAGE sql AS 'SELECT 1'";

const describeHere =
  programs === undefined ? describeIf(false, 'npm run test:matrix -- --only public-schema') : describeWith('psql');

/** Everybody may create in the schema `public` of a new database, up to this version. */
describeHere('the schema public of PostgreSQL 14', () => {
  const folder = useTemporaryFolder('public-schema');
  let server: PostgresServer;
  let superuser: pg.Pool;

  beforeAll(async () => {
    server = await PostgresServer.start({ folder: join(folder, 'server'), settings: { fsync: 'off' }, programs });
    const first = openPool({ connectionString: server.url('postgres'), max: 1 });
    await first.query('CREATE DATABASE compose');
    for (const [name, login] of [
      ['owner', 'compose_owner'],
      ['service', 'compose_app'],
    ] as const) {
      writeFileSync(join(folder, `${name}_database_url`), `postgresql://${login}:test@postgres:5432/compose\n`);
    }
    await runInitRoles();
    await first.query("CREATE ROLE petstore_owner LOGIN PASSWORD 'test'");
    await first.query('CREATE DATABASE petstore OWNER petstore_owner');
    await first.end();
    superuser = openPool({ connectionString: server.url('petstore'), max: 1 });
  });
  afterAll(async () => {
    await superuser.end();
    await server.stop();
  });

  it('init-roles.sh lets the owner migrate and nobody else create', async () => {
    await deployByEngine(urlOf('compose_owner', 'compose'));
    const other = openPool({ connectionString: urlOf('compose_app', 'compose'), max: 1 });
    await expect(other.query(CREATE_FUNCTION)).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
    await other.query('SELECT FROM orders');
    await other.end();
    const listed = await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf('compose_owner', 'compose') });
    expect(listed).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' });
  });

  it('migrations fail in a new database, until the remedy is applied', async () => {
    const owner = urlOf('petstore_owner', 'petstore');
    const failure: unknown = await deployByEngine(owner).catch((error: unknown) => error);
    expect(String(failure)).toContain('PUBLIC may create in the schema public');
    await superuser.query('GRANT CREATE ON SCHEMA public TO petstore_owner');
    await superuser.query(/REVOKE [^;]*;/.exec(String(failure))?.[0] ?? '');
    await deployByEngine(owner);
    const listed = await petstore(['keys', 'list', '--json'], { DATABASE_URL: owner });
    expect(listed).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' });
  });

  it.each([
    ['own', 'the owner may create roles'],
    ['managed', 'the owner may not, and gives the rights to a login'],
    ['shared', 'the database belongs to a superuser'],
  ])('the documented installation of %s, where %s, leaves nothing for doctor to report', async (name) => {
    const [, section = ''] = readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8').split(
      '\n## Without containers\n',
    );
    const renamed = section
      .split('\n## ')[0]!
      .replaceAll('TO owner;', `TO ${name}_owner;`)
      .replaceAll('petstore_app', `${name}_app`)
      .replaceAll('…', 'test')
      .replaceAll('DATABASE petstore', `DATABASE ${name}`);
    const [rights = '', login = ''] = [...renamed.matchAll(/psql [^\n]*<<'END'\n(.*?)\nEND/gs)].map(
      ([, sql = '']) => sql,
    );
    const [, grants = ''] = /```sh\n(\{\n.*?psql [^\n]*)\n```/s.exec(renamed) ?? [];
    await superuser.query(`CREATE ROLE ${name}_owner LOGIN PASSWORD 'test'`);
    await superuser.query(`CREATE DATABASE ${name}${name === 'shared' ? '' : ` OWNER ${name}_owner`}`);
    const admin = openPool({ connectionString: server.url(name), max: 1 });
    await admin.query(rights);
    await admin.query(`GRANT CONNECT ON DATABASE ${name} TO ${name}_owner`);
    await deployByEngine(urlOf(`${name}_owner`, name));
    const install: Readonly<Record<string, () => Promise<unknown>>> = {
      own: () => admin.query(login),
      shared: () => admin.query(login),
      managed: async () => {
        await admin.query("CREATE ROLE managed_app LOGIN PASSWORD 'test'");
        await shell(grants, urlOf('managed_owner', 'managed'));
      },
    };
    await install[name]!();
    await admin.end();
    const found = await checks(`${name}_app`, name);
    const statuses = found
      .filter(({ name: check }) => ['access', 'grants', 'schema', 'list', 'role'].includes(check))
      .map(({ status }) => status);
    expect(statuses).toEqual(['ok', 'ok', 'ok', 'ok', 'ok']);
  });

  function urlOf(user: string, database: string): string {
    return `postgresql://${user}:test@127.0.0.1:${new URL(server.url(database)).port}/${database}`;
  }

  async function checks(user: string, database: string): Promise<{ name: string; status: string }[]> {
    const environment = { DATABASE_URL: urlOf(user, database), PORT: '0', METRICS_PORT: '0' };
    const { stdout } = await petstore(['doctor', '--json'], environment);
    return (JSON.parse(stdout) as { checks: { name: string; status: string }[] }).checks;
  }

  /** As the image of PostgreSQL does at its first start. */
  async function runInitRoles(): Promise<void> {
    const script = readFileSync(join(ROOT, 'deploy', 'postgres', 'init-roles.sh'), 'utf8');
    await shell(script.replaceAll('/run/secrets', folder), server.url('compose'));
  }

  /** Runs commands whose psql uses the login and the database of the URL. */
  async function shell(commands: string, url: string): Promise<void> {
    const { port, username, password, pathname } = new URL(url);
    const database = pathname.slice(1);
    const login = { PGHOST: '127.0.0.1', PGPORT: port, PGUSER: username, PGPASSWORD: password, PGDATABASE: database };
    await promisify(execFile)('sh', ['-euc', commands], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, ...login, POSTGRES_USER: username, POSTGRES_DB: database },
    });
  }
});
