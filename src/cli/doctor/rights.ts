import type pg from 'pg';
import type { Config } from '../../config/config.js';
import { onlyRow } from '../../database/only-row.js';
import { error, ok, type Result, skipped, warning } from './check.js';

/** The role that the migrations grant the privileges of the service; a login gets them by membership. */
const SERVICE_ROLE = 'petstore_service';

const onColumns = (privilege: string, columns: string, table: string): string[] =>
  columns.split(' ').map((column) => `${privilege} (${column}) ON ${table}`);

/** What the migrations grant it, as in GRANT. */
const GRANTS: readonly string[] = [
  'USAGE ON SCHEMA public',
  'SELECT ON orders',
  ...onColumns('UPDATE', 'status cancelled_at', 'orders'),
  ...onColumns('SELECT', 'id key_hash plan requests_per_minute requests_per_day', 'api_keys'),
  ...onColumns('SELECT', 'expires_at revoked_at last_used_at', 'api_keys'),
  'UPDATE (last_used_at) ON api_keys',
  'SELECT ON order_list_changes',
  'EXECUTE ON FUNCTION merge_order_list_changes(bigint,bigint)',
  ...['SELECT', 'INSERT', 'DELETE'].map((privilege) => `${privilege} ON api_key_usage`),
  ...onColumns('UPDATE', 'admitted rejected banned lists cancels list_bytes', 'api_key_usage'),
];

/** Also granted: for release 1.0.0, and where Prisma keeps a record of the migrations. */
export const ALLOWED: readonly string[] = [
  ...GRANTS,
  'EXECUTE ON FUNCTION compact_order_list_changes(bigint)',
  'EXECUTE ON FUNCTION note_order_list_blocks(bigint,bigint)',
  ...onColumns('SELECT', 'migration_name finished_at rolled_back_at', '_prisma_migrations'),
];

/** The functions among them, whoever owns them. */
const FUNCTIONS = ALLOWED.flatMap((grant) => / ON FUNCTION (\w+)/.exec(grant)?.[1] ?? []);

/** Not by `to_regclass`, which finds nothing without the right to use the schema. */
const OWNER = `(SELECT relowner FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'orders')`;

/**
 * A member that does not inherit has no privilege of its role. From PostgreSQL 16 on, each membership has this option.
 * `isMember` is null when the role of the service does not exist, as where the owner may not create roles. Names are as in GRANT.
 */
const LOGIN = `
  SELECT session_user AS name, quote_ident(session_user) AS quoted, quote_ident(datname) AS database, datdba::regrole::text AS owner,
         pg_has_role(session_user, datdba, 'USAGE') AS "ownsDatabase",
         rolsuper OR coalesce(pg_has_role(session_user, ${OWNER}, 'USAGE'), false) AS "ownsTables",
         (SELECT pg_has_role(session_user, oid, 'USAGE') FROM pg_roles WHERE rolname = '${SERVICE_ROLE}') AS "isMember",
         format('GRANT ${SERVICE_ROLE} TO %1$I' || CASE
           WHEN rolinherit AND NOT (SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = '${SERVICE_ROLE}') THEN ''
           WHEN current_setting('server_version_num')::integer < 160000 THEN '; ALTER ROLE %1$I INHERIT'
           ELSE ' WITH INHERIT TRUE'
         END, session_user) AS "makeMember"
  FROM pg_roles, pg_database WHERE rolname = session_user AND datname = current_database()`;

interface Login {
  readonly name: string;
  readonly quoted: string;
  readonly database: string;
  /** Of the database. */
  readonly owner: string;
  readonly ownsDatabase: boolean;
  readonly ownsTables: boolean;
  readonly isMember: boolean | null;
  /** The statements that give it the privileges of the role. */
  readonly makeMember: string;
}

/**
 * What the login has: attributes, memberships, and what is granted to it, to its roles and to PUBLIC, as in GRANT. Of the functions,
 * those that run with the privileges of the owner of the tables, and those of the migrations.
 */
const HELD = `
  WITH extension AS (
    SELECT objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND deptype = 'e'
  ), object AS (
    SELECT coalesce(datacl, acldefault('d', datdba)) AS acl, '' AS columns, 'DATABASE' AS name
    FROM pg_database WHERE datname = current_database()
    UNION ALL
    SELECT coalesce(nspacl, acldefault('n', nspowner)), '', 'SCHEMA public' FROM pg_namespace WHERE nspname = 'public'
    UNION ALL
    SELECT relacl, '', CASE relkind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END || relname
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND oid NOT IN (SELECT objid FROM extension)
    UNION ALL
    SELECT attacl, format(' (%s)', attname), relname FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace AND NOT attisdropped AND pg_class.oid NOT IN (SELECT objid FROM extension)
    UNION ALL
    SELECT coalesce(proacl, acldefault('f', proowner)), '', 'FUNCTION ' || regexp_replace(oid::regprocedure::text, '^public[.]', '') FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND prosecdef
      AND (proowner = ${OWNER} OR proname IN (${FUNCTIONS.map((name) => `'${name}'`).join(', ')}))
  )
  SELECT attribute AS held, NULL AS grantee
  FROM pg_roles CROSS JOIN LATERAL (VALUES ('SUPERUSER', rolsuper), ('CREATEROLE', rolcreaterole), ('CREATEDB', rolcreatedb),
    ('REPLICATION', rolreplication), ('BYPASSRLS', rolbypassrls)) AS attributes (attribute, has)
  WHERE rolname = session_user AND has
  UNION
  SELECT 'membership in ' || rolname, NULL FROM pg_roles
  WHERE rolname NOT IN (session_user, '${SERVICE_ROLE}') AND pg_has_role(session_user, oid, 'MEMBER')
  UNION
  SELECT format('%s%s ON %s', privilege_type, columns, name), CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
  FROM object, aclexplode(acl) WHERE grantee = 0 OR pg_has_role(session_user, grantee, 'USAGE')
  ORDER BY held, grantee`;

/** A right as in GRANT, and to whom it is granted; null for attributes and memberships. */
type Held = Readonly<{ held: string; grantee: string | null }>;

const ON_DATABASE = ' ON DATABASE';
const CREATE = 'CREATE ON SCHEMA public';

/** What all logins of the server may do: a dump does not contain the rights on its database, and a new one gives them to everybody. */
export async function checkAccess(db: pg.Client, { databaseUrl }: Config): Promise<Result> {
  if (databaseUrl === undefined) {
    return skipped('the embedded database has one login');
  }
  const { quoted, database, owner, ownsDatabase } = onlyRow((await db.query<Login>(LOGIN)).rows);
  const { rows } = await db.query<Held>(HELD);
  const ofPublic = rows.filter(({ grantee }) => grantee === 'PUBLIC').map(({ held }) => held);
  const privileges = ofPublic.filter((held) => held.endsWith(ON_DATABASE)).map((held) => held.replace(ON_DATABASE, ''));
  const mayCreate = ofPublic.includes(CREATE);
  const problems = [
    ...(privileges.length > 0 ? [`${privileges.join(', ')} on this database`] : []),
    ...(mayCreate ? ['CREATE in its schema public'] : []),
  ];
  if (problems.length === 0) {
    return ok('only what it was granted to may connect');
  }
  const mayConnect = rows.some(({ held, grantee }) => held === 'CONNECT ON DATABASE' && grantee !== 'PUBLIC');
  const statements = [
    ...(ownsDatabase || mayConnect ? [] : [`GRANT CONNECT ON DATABASE ${database} TO ${quoted};`]),
    ...(privileges.length > 0 ? [`REVOKE ALL ON DATABASE ${database} FROM PUBLIC;`] : []),
    ...(mayCreate ? [`GRANT CREATE ON SCHEMA public TO ${owner};`, 'REVOKE CREATE ON SCHEMA public FROM PUBLIC;'] : []),
  ];
  const message = `every login of the server has ${problems.join(', and ')}`;
  // The owner cannot tell which logins connect only because everybody may.
  const first =
    ownsDatabase && privileges.includes('CONNECT')
      ? `First GRANT CONNECT ON DATABASE ${database} TO the login of the service, which else cannot connect any more. `
      : '';
  return warning(
    message,
    `${first}Run as ${mayCreate ? 'a superuser' : 'the owner of the database'}: ${statements.join(' ')}`,
  );
}

const isGrantedBy = (grants: readonly string[], right: string): boolean =>
  // Or the same privilege on the whole table.
  grants.includes(right) || grants.includes(right.replace(/ \(\w+\) ON /, ' ON '));

/** What everybody may do with the database, and create, is {@link checkAccess}. */
const isSuperfluous = ({ held, grantee }: Held): boolean =>
  !isGrantedBy(ALLOWED, held) && !held.endsWith(ON_DATABASE) && !(held === CREATE && grantee === 'PUBLIC');

export async function checkRole(db: pg.Client, { databaseUrl }: Config): Promise<Result> {
  const { name, quoted, ownsTables, isMember, makeMember } = onlyRow((await db.query<Login>(LOGIN)).rows);
  if (databaseUrl === undefined) {
    return ok(`"${name}" owns the embedded database`);
  }
  if (ownsTables) {
    const remedy = `Use the DATABASE_URL of the service, whose login should be a member of ${SERVICE_ROLE} only.`;
    return warning(`"${name}" owns the tables or is a superuser`, remedy);
  }
  const { rows } = await db.query<Held>(HELD);
  const held = rows.map((row) => row.held);
  const missing = GRANTS.filter((grant) => !isGrantedBy(held, grant));
  const superfluous = rows.filter(isSuperfluous);
  const superfluousNames = [...new Set(superfluous.map((row) => row.held))];
  const problems = [
    ...(missing.length === 0 ? [] : [`lacks ${missing.join(', ')}`]),
    ...(superfluous.length === 0 ? [] : [`has more than it needs: ${superfluousNames.join(', ')}`]),
  ];
  if (problems.length === 0) {
    return ok(`"${name}" has what the service needs and nothing else`);
  }
  const message = `"${name}" ${problems.join(', and ')}`;
  if (missing.length > 0 && isMember === false) {
    return error(
      message,
      `Run as a superuser or the creator of ${SERVICE_ROLE}: ${makeMember}. Then run doctor again.`,
    );
  }
  const statements = [
    ...missing.map((grant) => `GRANT ${grant} TO ${isMember === null ? quoted : SERVICE_ROLE};`),
    ...superfluous.flatMap((row) => (row.grantee === null ? [] : [`REVOKE ${row.held} FROM ${row.grantee};`])),
  ];
  const remedies = [
    ...(statements.length === 0 ? [] : ['Run as the owner:', ...statements]),
    ...(superfluous.some(({ grantee }) => grantee === null)
      ? ['Take attributes and memberships from the login as a superuser.']
      : []),
  ];
  return (missing.length === 0 ? warning : error)(message, remedies.join(' '));
}
