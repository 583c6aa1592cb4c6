import type pg from 'pg';
import type { Config } from '../../config/config.js';
import { onlyRow } from '../../database/only-row.js';
import { error, ok, type Result, warning } from './check.js';

/** The role that the migrations grant the privileges of the service; a login gets them by membership. */
const SERVICE_ROLE = 'petstore_service';

const KEY_COLUMNS = 'id key_hash plan requests_per_minute requests_per_day expires_at revoked_at last_used_at'.split(
  ' ',
);
const COUNT_COLUMNS = 'admitted rejected banned lists cancels list_bytes'.split(' ');

/** What the migrations grant it, as in GRANT. */
const GRANTS: readonly string[] = [
  'USAGE ON SCHEMA public',
  'SELECT ON orders',
  'UPDATE (status) ON orders',
  'UPDATE (cancelled_at) ON orders',
  ...KEY_COLUMNS.map((column) => `SELECT (${column}) ON api_keys`),
  'UPDATE (last_used_at) ON api_keys',
  'SELECT ON order_list_changes',
  'EXECUTE ON FUNCTION compact_order_list_changes(bigint)',
  'EXECUTE ON FUNCTION note_order_list_blocks(bigint,bigint)',
  ...['SELECT', 'INSERT', 'DELETE'].map((privilege) => `${privilege} ON api_key_usage`),
  ...COUNT_COLUMNS.map((column) => `UPDATE (${column}) ON api_key_usage`),
];

const LOGIN = `
  SELECT session_user AS login,
         rolsuper OR EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('public.orders')
                             AND pg_has_role(session_user, relowner, 'USAGE')) AS "isOwner"
  FROM pg_roles WHERE rolname = session_user`;

/**
 * What the login has: attributes, memberships, and privileges as in GRANT, on columns only where it has none on the table. Of the
 * functions, those that run with the privileges of their owner, who owns the tables.
 */
const HELD = `
  WITH relation AS (SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace)
  SELECT attribute AS held
  FROM pg_roles CROSS JOIN LATERAL (VALUES ('SUPERUSER', rolsuper), ('CREATEROLE', rolcreaterole), ('CREATEDB', rolcreatedb),
    ('REPLICATION', rolreplication), ('BYPASSRLS', rolbypassrls)) AS attributes (attribute, has)
  WHERE rolname = session_user AND has
  UNION ALL
  SELECT 'membership in ' || rolname FROM pg_roles
  WHERE rolname NOT IN (session_user, '${SERVICE_ROLE}') AND pg_has_role(session_user, oid, 'MEMBER')
  UNION ALL
  SELECT privilege || ' ON SCHEMA public' FROM unnest(ARRAY['USAGE', 'CREATE']) AS privilege
  WHERE has_schema_privilege(session_user, 'public', privilege)
  UNION ALL
  SELECT format('%s ON %s', privilege, relname)
  FROM relation CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS privilege
  WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND has_table_privilege(session_user, relation.oid, privilege)
  UNION ALL
  SELECT format('%s (%s) ON %s', privilege, attname, relname)
  FROM relation JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
  CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS privilege
  WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND has_column_privilege(session_user, relation.oid, attnum, privilege)
    AND NOT has_table_privilege(session_user, relation.oid, privilege)
  UNION ALL
  SELECT format('%s ON SEQUENCE %s', privilege, relname)
  FROM (SELECT * FROM relation WHERE relkind = 'S' OFFSET 0) AS sequence
  CROSS JOIN unnest(ARRAY['SELECT', 'UPDATE', 'USAGE']) AS privilege WHERE has_sequence_privilege(session_user, oid, privilege)
  UNION ALL
  SELECT 'EXECUTE ON FUNCTION ' || oid::regprocedure FROM pg_proc
  WHERE pronamespace = 'public'::regnamespace AND prosecdef AND has_function_privilege(session_user, oid, 'EXECUTE')
    AND proowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('public.orders'))
  ORDER BY held`;

/** The same privilege on the whole table. */
const wholeOf = (grant: string): string => grant.replace(/ \(\w+\) ON /, ' ON ');

export async function checkRole(db: pg.Client, { databaseUrl }: Config): Promise<Result> {
  const { login, isOwner } = onlyRow((await db.query<{ login: string; isOwner: boolean }>(LOGIN)).rows);
  if (databaseUrl === undefined) {
    return ok(`"${login}" owns the embedded database`);
  }
  if (isOwner) {
    return warning(
      `"${login}" owns the tables or is a superuser`,
      `Use the DATABASE_URL of the service, whose login should be a member of ${SERVICE_ROLE} only.`,
    );
  }
  const held = (await db.query<{ held: string }>(HELD)).rows.map((row) => row.held);
  const missing = GRANTS.filter((grant) => !held.includes(grant) && !held.includes(wholeOf(grant)));
  const superfluous = held.filter((grant) => !GRANTS.includes(grant) && !GRANTS.includes(wholeOf(grant)));
  const excess = superfluous.length === 0 ? [] : [`has more than it needs: ${superfluous.join(', ')}`];
  if (missing.length > 0) {
    return error(
      [`"${login}" lacks ${missing.join(', ')}`, ...excess].join(', and '),
      `Run as the owner: GRANT ${SERVICE_ROLE} TO "${login}"; ${missing.map((grant) => `GRANT ${grant} TO ${SERVICE_ROLE}`).join('; ')}.`,
    );
  }
  return superfluous.length === 0
    ? ok(`"${login}" has what the service needs and nothing else`)
    : warning(
        `"${login}" ${excess.join('')}`,
        'Revoke it from the login, from the roles that it is a member of, and from PUBLIC.',
      );
}
