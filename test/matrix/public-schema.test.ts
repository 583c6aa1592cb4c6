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
import { type CommandResult, petstore, runProcess } from '../helpers/petstore.js';
import { deployByEngine } from '../helpers/prisma-migrate.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
const programs = otherPostgres(14);

const INSUFFICIENT_PRIVILEGE = '42501';
/** `keys usage` divides a float8 by an integer, for which PostgreSQL has no operator of its own. The function has the rights of who runs it. */
const ATTACK = `
  CREATE FUNCTION public.divide(float8, integer) RETURNS float8 LANGUAGE plpgsql AS $$
  BEGIN
    GRANT SELECT ON public.api_keys TO petstore_app;
    RETURN 0;
  END $$;
  CREATE OPERATOR public./ (FUNCTION = public.divide, LEFTARG = float8, RIGHTARG = integer)`;

const describeHere =
  programs === undefined ? describeIf(false, 'npm run test:matrix -- --only long') : describeWith('psql');

/** Everybody may create in the schema `public` of a new database, up to this version. */
describeHere('the schema public of PostgreSQL 14', () => {
  const folder = useTemporaryFolder('public-schema');
  let server: PostgresServer;
  let superuser: pg.Pool;
  let service: pg.Pool;

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
    service = openPool({ connectionString: urlOf('petstore_app', 'petstore'), max: 1 });
  });
  afterAll(async () => {
    await Promise.all([superuser.end(), service.end()]);
    await server.stop();
  });

  it('init-roles.sh lets the owner migrate and nobody else create', async () => {
    await deployByEngine(urlOf('compose_owner', 'compose'));
    const other = openPool({ connectionString: urlOf('compose_app', 'compose'), max: 1 });
    await expect(other.query(ATTACK)).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
    await other.query('SELECT FROM orders');
    await other.end();
    const { exitCode, stdout } = await petstore(['keys', 'list', '--json'], {
      DATABASE_URL: urlOf('compose_owner', 'compose'),
    });
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: '[]\n' });
  });

  it('a database of one owner needs no further step', async () => {
    await superuser.query('REVOKE CONNECT ON DATABASE petstore FROM PUBLIC');
    await deployByEngine(urlOf('petstore_owner', 'petstore'));
    expect(await asOwner('keys', 'issue', '--name', 'Partner', '--plan', 'pro')).toMatchObject({ exitCode: 0 });
  });

  it('db:check runs nothing that another login has made in template1, and needs nothing of it', async () => {
    await superuser.query("CREATE ROLE stranger LOGIN PASSWORD 'test'; ALTER ROLE petstore_owner CREATEDB");
    const stranger = openPool({ connectionString: urlOf('stranger', 'template1'), max: 1 });
    await stranger.query(`
      CREATE TABLE public.note (text text);
      CREATE FUNCTION public.equals(oid, regprocedure) RETURNS boolean LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'code of others'; END $$;
      CREATE OPERATOR public.= (FUNCTION = public.equals, LEFTARG = oid, RIGHTARG = regprocedure)`);
    const command = ['npm', 'run', '--silent', 'db:check'];
    // Meanwhile it is connected to template1.
    const result = await runProcess(command, { DATABASE_URL: urlOf('petstore_owner', 'petstore') });
    await stranger.query(
      'DROP OPERATOR public.= (oid, regprocedure); DROP FUNCTION public.equals; DROP TABLE public.note',
    );
    await stranger.end();
    expect(result).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('No difference detected') as string });
  });

  it('migrations run nothing that another login could have made there, and commands warn, until the remedy is applied', async () => {
    await superuser.query("CREATE ROLE petstore_app LOGIN PASSWORD 'test' IN ROLE petstore_service");
    await superuser.query('GRANT CONNECT ON DATABASE petstore TO petstore_app');
    await service.query(ATTACK);
    const problem =
      '"petstore_app" may create in the schema public, and other roles own OPERATOR public./(double precision,integer)';
    const remedy =
      'GRANT CREATE ON SCHEMA public TO petstore_owner; REVOKE CREATE ON SCHEMA public FROM PUBLIC; ' +
      'DROP OPERATOR public./(double precision,integer);';
    const [id = ''] = /^[0-9a-f-]{36}/m.exec((await asOwner('keys', 'list')).stdout) ?? [];
    for (const command of [
      ['keys', 'list'],
      ['keys', 'revoke', id],
    ]) {
      const { exitCode, stderr } = await asOwner(...command);
      expect({ exitCode, stderr }).toEqual({
        exitCode: 0,
        stderr:
          `warning: Others could run code with the privileges of "petstore_owner" in this database: ${problem}. ` +
          `If you trust that role, use its login. Otherwise: Run as a superuser, or as the owner of the schema: ${remedy} ` +
          'Then end all other sessions and prepared transactions, as "Who may create in the schema" in docs/operations.md says.\n',
      });
    }
    await expect(deployByEngine(urlOf('petstore_owner', 'petstore'))).rejects.toThrow(problem);
    expect((await checks('petstore_owner')).find(({ name }) => name === 'access')).toMatchObject({
      status: 'warning',
      remedy: expect.stringContaining(remedy) as string,
    });
    // The login of the service has no rights that others could want.
    const found = (await checks('petstore_app')).find(({ name }) => name === 'access');
    expect(found).toMatchObject({
      status: 'warning',
      message: expect.stringContaining('CREATE in its schema public') as string,
    });
    await expect(service.query('SELECT name FROM api_keys')).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });

    await superuser.query(remedy);
    expect(await asOwner('keys', 'usage')).toMatchObject({ exitCode: 0, stderr: '' });
    await deployByEngine(urlOf('petstore_owner', 'petstore'));
    await expect(service.query(ATTACK)).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
    expect((await checks('petstore_app')).find(({ name }) => name === 'access')).toMatchObject({
      status: 'warning',
      message: expect.stringMatching(/has TEMPORARY on this database$/) as string,
    });
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

  function asOwner(...args: string[]): Promise<CommandResult> {
    return petstore(args, { DATABASE_URL: urlOf('petstore_owner', 'petstore') });
  }

  async function checks(
    user: string,
    database = 'petstore',
  ): Promise<{ name: string; status: string; message: string; remedy: string | null }[]> {
    const { stdout } = await petstore(['doctor', '--json'], {
      DATABASE_URL: urlOf(user, database),
      PORT: '0',
      METRICS_PORT: '0',
    });
    return (
      JSON.parse(stdout) as { checks: { name: string; status: string; message: string; remedy: string | null }[] }
    ).checks;
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
