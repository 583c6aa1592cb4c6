import type pg from 'pg';
import type { Config } from '../../config/config.js';
import { onlyRow } from '../../database/only-row.js';
import { error, ok, type Result, warning } from './check.js';

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
const ALLOWED: readonly string[] = [
  ...GRANTS,
  'EXECUTE ON FUNCTION compact_order_list_changes(bigint)',
  'EXECUTE ON FUNCTION note_order_list_blocks(bigint,bigint)',
  ...onColumns('SELECT', 'migration_name finished_at rolled_back_at', '_prisma_migrations'),
];

/** Not by `to_regclass`, which finds nothing without the right to use the schema. */
const OWNER = `(SELECT relowner FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'orders')`;

/** `isMember` is null when the role of the service does not exist, as where the owner may not create roles. */
const LOGIN = `
  SELECT session_user AS login, quote_ident(session_user) AS "quotedLogin",
         rolsuper OR coalesce(pg_has_role(session_user, ${OWNER}, 'USAGE'), false) AS "isOwner",
         (SELECT pg_has_role(session_user, oid, 'USAGE') FROM pg_roles WHERE rolname = '${SERVICE_ROLE}') AS "isMember"
  FROM pg_roles WHERE rolname = session_user`;

type Login = Readonly<{ login: string; quotedLogin: string; isOwner: boolean; isMember: boolean | null }>;

/**
 * What the login has: attributes, memberships, and what is granted to it, to its roles and to PUBLIC, as in GRANT. Of the functions,
 * those that run with the privileges of the owner of the tables. What everybody may create is another check.
 */
const HELD = `
  WITH extension AS (
    SELECT objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND deptype = 'e'
  ), object AS (
    SELECT relacl AS acl, '' AS columns, CASE relkind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END || relname AS name
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND oid NOT IN (SELECT objid FROM extension)
    UNION ALL
    SELECT attacl, format(' (%s)', attname), relname FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace AND NOT attisdropped AND pg_class.oid NOT IN (SELECT objid FROM extension)
    UNION ALL
    SELECT nspacl, '', 'SCHEMA public' FROM pg_namespace WHERE nspname = 'public'
    UNION ALL
    SELECT coalesce(proacl, acldefault('f', proowner)), '', 'FUNCTION ' || oid::regprocedure FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND prosecdef
      AND proowner = ${OWNER}
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
  FROM object, aclexplode(acl)
  WHERE grantee = 0 AND NOT (privilege_type = 'CREATE' AND name = 'SCHEMA public')
    OR grantee <> 0 AND pg_has_role(session_user, grantee, 'USAGE')
  ORDER BY held, grantee`;

/** The same privilege on the whole table. */
const wholeOf = (grant: string): string => grant.replace(/ \(\w+\) ON /, ' ON ');

export async function checkRole(db: pg.Client, { databaseUrl }: Config): Promise<Result> {
  const { login, quotedLogin, isOwner, isMember } = onlyRow((await db.query<Login>(LOGIN)).rows);
  if (databaseUrl === undefined) {
    return ok(`"${login}" owns the embedded database`);
  }
  if (isOwner) {
    const remedy = `Use the DATABASE_URL of the service, whose login should be a member of ${SERVICE_ROLE} only.`;
    return warning(`"${login}" owns the tables or is a superuser`, remedy);
  }
  const { rows } = await db.query<{ held: string; grantee: string | null }>(HELD);
  const held = rows.map((row) => row.held);
  const missing = GRANTS.filter((grant) => !held.includes(grant) && !held.includes(wholeOf(grant)));
  const isSuperfluous = (grant: string): boolean => !ALLOWED.includes(grant) && !ALLOWED.includes(wholeOf(grant));
  const superfluous = [...new Set(held.filter(isSuperfluous))];
  const problems = [
    ...(missing.length === 0 ? [] : [`lacks ${missing.join(', ')}`]),
    ...(superfluous.length === 0 ? [] : [`has more than it needs: ${superfluous.join(', ')}`]),
  ];
  if (problems.length === 0) {
    return ok(`"${login}" has what the service needs and nothing else`);
  }
  const message = `"${login}" ${problems.join(', and ')}`;
  if (missing.length === 0) {
    const grants = rows.filter(({ held: grant, grantee }) => grantee !== null && isSuperfluous(grant));
    const others = rows.some(({ held: grant, grantee }) => grantee === null && isSuperfluous(grant));
    const remedies = [
      ...(grants.length === 0
        ? []
        : ['Run as the owner:', ...grants.map((row) => `REVOKE ${row.held} FROM ${row.grantee};`)]),
      ...(others ? ['Take attributes and memberships from the login as a superuser.'] : []),
    ];
    return warning(message, remedies.join(' '));
  }
  if (isMember === false) {
    const grant = `GRANT ${SERVICE_ROLE} TO ${quotedLogin}`;
    return error(message, `Run as a superuser or the creator of ${SERVICE_ROLE}: ${grant}. Then run doctor again.`);
  }
  const grantee = isMember === null ? quotedLogin : SERVICE_ROLE;
  return error(message, `Run as the owner: ${missing.map((grant) => `GRANT ${grant} TO ${grantee}`).join('; ')}.`);
}
