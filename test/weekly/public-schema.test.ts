import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { describeIf, describeWith } from '../helpers/describe-if.js';
import { openPool } from '../helpers/open-pool.js';
import { otherPostgres } from '../helpers/other-postgres.js';
import { petstore } from '../helpers/petstore.js';
import { prismaMigrate } from '../helpers/prisma-migrate.js';
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
    superuser = openPool({ connectionString: server.url('postgres'), max: 1 });
  });
  afterAll(async () => {
    await superuser.end();
    await server.stop();
  });

  it('init-roles.sh lets the owner migrate and nobody else create', async () => {
    await superuser.query('CREATE DATABASE compose');
    for (const [name, login] of [
      ['owner', 'compose_owner'],
      ['service', 'compose_app'],
    ] as const) {
      writeFileSync(join(folder, `${name}_database_url`), `postgresql://${login}:test@postgres:5432/compose\n`);
    }
    // As the image of PostgreSQL does at its first start.
    const script = readFileSync(join(ROOT, 'deploy', 'postgres', 'init-roles.sh'), 'utf8');
    await shell(script.replaceAll('/run/secrets', folder), server.url('compose'));
    await prismaMigrate('deploy', urlOf('compose_owner', 'compose'));
    const other = openPool({ connectionString: urlOf('compose_app', 'compose'), max: 1 });
    await expect(other.query(CREATE_FUNCTION)).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
    await other.query('SELECT FROM orders');
    await other.end();
    const listed = await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf('compose_owner', 'compose') });
    expect(listed).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' });
  });

  it.each([
    ['own', 'the owner may create roles'],
    ['managed', 'the owner may not, and gives the rights to a login'],
  ])('the documented installation of %s, where %s, leaves nothing for doctor to report', async (name) => {
    const page = readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8');
    const section = page.split('\n## Without containers\n')[1]!.split('\n## ')[0]!;
    const renamed = section
      .replaceAll('TO owner;', `TO ${name}_owner;`)
      .replaceAll('petstore_app', `${name}_app`)
      .replaceAll('…', 'test')
      .replaceAll('DATABASE petstore', `DATABASE ${name}`);
    const [rights = '', login = ''] = [...renamed.matchAll(/psql [^\n]*<<'END'\n(.*?)\nEND/gs)].map(
      ([, sql = '']) => sql,
    );
    const [, grants = ''] = /```sh\n(\{\n.*?psql [^\n]*)\n```/s.exec(renamed) ?? [];
    await superuser.query(`CREATE ROLE ${name}_owner LOGIN PASSWORD 'test'`);
    await superuser.query(`CREATE DATABASE ${name} OWNER ${name}_owner`);
    const admin = openPool({ connectionString: server.url(name), max: 1 });
    await admin.query(rights);
    await admin.query(`GRANT CONNECT ON DATABASE ${name} TO ${name}_owner`);
    await prismaMigrate('deploy', urlOf(`${name}_owner`, name));
    if (name === 'own') {
      await admin.query(login);
    } else {
      await admin.query(`CREATE ROLE ${name}_app LOGIN PASSWORD 'test'`);
      await shell(grants, urlOf(`${name}_owner`, name));
    }
    await admin.end();
    const environment = { DATABASE_URL: urlOf(`${name}_app`, name), PORT: '0', METRICS_PORT: '0' };
    const { stdout } = await petstore(['doctor', '--json'], environment);
    const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string }[] };
    const statuses = Object.fromEntries(checks.map(({ name: check, status }) => [check, status]));
    expect(statuses).toMatchObject({ access: 'ok', schema: 'ok', list: 'ok', role: 'ok' });
  });

  function urlOf(user: string, database: string): string {
    return `postgresql://${user}:test@127.0.0.1:${new URL(server.url(database)).port}/${database}`;
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
