import { randomBytes } from 'node:crypto';
import { petstore } from '../helpers/petstore.js';
import { prismaMigrate } from '../helpers/prisma-migrate.js';
import { useTestDatabase } from '../helpers/test-database.js';

const suffix = randomBytes(4).toString('hex');
/** Logins: the owner of the tables, another member of its role, another installation's, and one that may not connect. */
const [team, owner, colleague, stranger, outsider] = ['team', 'owner', 'colleague', 'stranger', 'outsider'].map(
  (name) => `${name}_${suffix}`,
) as [string, string, string, string, string];
const ROLES = [team, owner, colleague, stranger, outsider];
const TABLES = ['orders', 'api_keys', 'order_list_changes', 'api_key_usage', '_prisma_migrations'];

const database = useTestDatabase();
const nameOfDatabase = (): string => new URL(database.url).pathname.slice(1);

function urlOf(login: string): string {
  return Object.assign(new URL(database.url), { username: login, password: 'test' }).href;
}

describe('a command whose login has the privileges of the owner', () => {
  beforeAll(async () => {
    await database.db.query(`
      CREATE ROLE ${team};
      CREATE ROLE ${owner} LOGIN PASSWORD 'test' IN ROLE ${team}; CREATE ROLE ${colleague} LOGIN IN ROLE ${team};
      CREATE ROLE ${stranger} LOGIN; CREATE ROLE ${outsider} LOGIN;
      REVOKE ALL ON DATABASE ${nameOfDatabase()} FROM PUBLIC;
      GRANT CONNECT ON DATABASE ${nameOfDatabase()} TO ${team}, ${stranger};
      GRANT CREATE ON SCHEMA public TO ${team};
      ${TABLES.map((table) => `ALTER TABLE ${table} OWNER TO ${team};`).join(' ')}`);
  });
  afterAll(() => database.db.query(`DROP OWNED BY ${ROLES.join(', ')} CASCADE; DROP ROLE ${ROLES.join(', ')}`));

  it.each([
    ['nothing has changed', '', ''],
    [
      'a login that may not connect may create',
      `GRANT CREATE ON SCHEMA public TO ${outsider}`,
      `REVOKE CREATE ON SCHEMA public FROM ${outsider}`,
    ],
    [
      'another login has a view in the schema and a schema of its own',
      `CREATE VIEW theirs AS SELECT 1 AS one; ALTER VIEW theirs OWNER TO ${stranger}; CREATE SCHEMA ${stranger} AUTHORIZATION ${stranger}`,
      `DROP VIEW theirs; DROP SCHEMA ${stranger}`,
    ],
    ['an extension is installed', 'CREATE EXTENSION citext', 'DROP EXTENSION citext'],
  ])('runs when %s', async (_what, change, undo) => {
    await database.db.query(change);
    for (const login of [owner, colleague]) {
      await database.db.query(`ALTER ROLE ${login} PASSWORD 'test'`);
      const result = await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf(login) });
      expect(result).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' });
    }
    await database.db.query(undo);
  });

  it.each([
    [
      'everybody may create',
      'GRANT CREATE ON SCHEMA public TO PUBLIC',
      `"${stranger}" may create in the schema public. Run as a superuser, or as the owner of the schema: ` +
        `GRANT CREATE ON SCHEMA public TO ${team}; REVOKE CREATE ON SCHEMA public FROM PUBLIC;`,
    ],
    [
      'a login may create as a member of a role',
      `CREATE ROLE writers_${suffix}; GRANT CREATE ON SCHEMA public TO writers_${suffix}; GRANT writers_${suffix} TO ${stranger}`,
      `"${stranger}" may create in the schema public. Run as a superuser, or as the owner of the schema: ` +
        `REVOKE CREATE ON SCHEMA public FROM writers_${suffix};`,
    ],
    [
      'a login that may no longer create has a function and an operator',
      `CREATE FUNCTION their_function(uuid, date) RETURNS boolean LANGUAGE sql AS 'SELECT true';
       CREATE OPERATOR <> (FUNCTION = their_function, LEFTARG = uuid, RIGHTARG = date);
       ALTER FUNCTION their_function OWNER TO ${stranger}; ALTER OPERATOR <> (uuid, date) OWNER TO ${stranger}`,
      'other roles own OPERATOR public.<>(uuid,date), ROUTINE public.their_function(uuid,date). Run as a superuser, or as the owner of ' +
        'the schema: DROP OPERATOR public.<>(uuid,date); DROP ROUTINE public.their_function(uuid,date); Or give them to the owner of the tables, if you trust them.',
    ],
  ])('ends with 1 and a remedy that works when %s', async (_what, change, problem) => {
    await database.db.query(change);
    for (const [login, url] of [
      [owner, urlOf(owner)],
      ['petstore', database.url],
    ] as const) {
      expect(await petstore(['keys', 'list'], { DATABASE_URL: url })).toEqual({
        exitCode: 1,
        stdout: '',
        stderr: `error: Others could run code with the privileges of "${login}" in this database: ${problem}\n`,
      });
    }
    await database.db.query((problem.match(/(?:GRANT|REVOKE|DROP) [^;]*;/g) ?? []).join(' '));
    expect(await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf(owner) })).toMatchObject({ exitCode: 0 });
    await database.db.query(`DROP ROLE IF EXISTS writers_${suffix}`);
  });

  it('is in this like a migration', async () => {
    await database.db.query('GRANT CREATE ON SCHEMA public TO PUBLIC');
    await expect(prismaMigrate('status', urlOf(owner))).rejects.toThrow(
      `Others could run code with the privileges of "${owner}" in this database: "${stranger}" may create in the schema public. Run as`,
    );
    await database.db.query('REVOKE CREATE ON SCHEMA public FROM PUBLIC');
    expect(await prismaMigrate('status', urlOf(owner))).toContain('Database schema is up to date!');
  });
});
