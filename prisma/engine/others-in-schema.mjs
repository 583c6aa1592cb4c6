/**
 * Whoever may create in a schema of the search path may have functions and operators there, which PostgreSQL runs with the privileges
 * of the login whose statement uses them: for other types, `public.=` is preferred to its own. In clusters of PostgreSQL 14 and earlier,
 * also after an upgrade, everybody may create in the schema `public`. What they created still runs when they no longer may.
 */

import { escapeOf, UNPRINTABLE } from './printable.mjs';

/** @import pg from 'pg' */
/** @typedef {Record<'logins' | 'objects' | 'statements', string[]>} Others */

/** A session that could create may do so once more, and what an open transaction has made is not visible. */
const END_OTHERS =
  'Then end all other sessions and prepared transactions, as "Who may create in the schema" in docs/operations.md says.';

/**
 * Trusted are superusers, this login, and the owners of database and schema; for a login without the privileges of the owner of the
 * database also the roles with CREATE whose privileges it has. Members of a trusted role are trusted. All other roles are others.
 */
const SELECT_OTHERS = `
  WITH schema AS (
    SELECT oid, nspowner AS owner, coalesce(nspacl, acldefault('n', nspowner)) AS acl FROM pg_namespace WHERE nspname = 'public'
  ), creation AS (
    SELECT grantee, grantor FROM schema, aclexplode(acl) WHERE privilege_type = 'CREATE'
  ), database AS (
    SELECT oid, datdba AS owner FROM pg_database WHERE datname = current_database()
  ), relation AS (
    -- Those who use one of these run its triggers, rules and functions, or take ids from it.
    SELECT pg_class.oid, relname, relowner AS owner FROM pg_class JOIN schema ON schema.oid = relnamespace
    WHERE relname IN ('orders', 'orders_id_seq', 'api_keys', 'api_key_usage', 'order_list_changes', '_prisma_migrations')
  ), trusted AS (
    SELECT oid FROM pg_roles WHERE rolname = session_user
    UNION SELECT owner FROM database
    UNION SELECT owner FROM schema
    UNION SELECT grantee FROM creation, database
    WHERE pg_has_role(session_user, grantee, 'USAGE') AND NOT pg_has_role(session_user, database.owner, 'USAGE')
    -- What the login of the service may do, it has from the owner of the tables.
    UNION SELECT relation.owner FROM relation, schema, database
    WHERE $1 AND relname = 'orders' AND NOT has_schema_privilege(session_user, schema.oid, 'CREATE')
      AND NOT pg_has_role(session_user, database.owner, 'USAGE')
  ), other AS (
    SELECT oid, rolname, rolcanlogin FROM pg_roles
    WHERE NOT rolsuper AND NOT EXISTS (SELECT FROM trusted WHERE pg_has_role(pg_roles.oid, trusted.oid, 'MEMBER'))
  ), creator AS (
    SELECT rolname, grantee, grantor FROM other, database, creation
    -- A session goes on when its login may no longer connect.
    WHERE (
      rolcanlogin AND has_database_privilege(other.oid, database.oid, 'CONNECT')
      OR EXISTS (SELECT FROM pg_stat_activity WHERE usesysid = other.oid AND datid = database.oid)
    ) AND (grantee = 0 OR pg_has_role(other.oid, grantee, 'MEMBER'))
  ), object AS (
    SELECT 'pg_class'::regclass AS class, oid, owner FROM relation
    -- What has a name that only others use is never run in the place of something else.
    UNION ALL
    SELECT 'pg_operator'::regclass, pg_operator.oid, oprowner FROM pg_operator JOIN schema ON schema.oid = oprnamespace
    WHERE oprname IN (SELECT oprname FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace)
    UNION ALL
    SELECT 'pg_proc'::regclass, pg_proc.oid, proowner FROM pg_proc JOIN schema ON schema.oid = pronamespace
    WHERE proname IN (
      SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
        OR pronamespace = (SELECT oid FROM schema) AND proowner NOT IN (SELECT oid FROM other)
    )
  ), found AS (
    SELECT format('%s %s', upper(type), identity) AS object,
           CASE class
             WHEN 'pg_class'::regclass THEN
               format('ALTER %s %s RENAME TO %I;', replace(upper(type), 'COMPOSITE ', ''), identity, name || '_of_' || rolname)
             WHEN 'pg_operator'::regclass THEN format('DROP OPERATOR %s;', identity)
             ELSE format('DROP ROUTINE %s;', identity)
           END AS statement
    FROM object JOIN other ON other.oid = owner CROSS JOIN LATERAL pg_identify_object(class, object.oid, 0)
  )
  SELECT ARRAY(SELECT DISTINCT format('"%s"', rolname) FROM creator ORDER BY 1) AS logins,
         ARRAY(SELECT object FROM found ORDER BY 1) AS objects,
         ARRAY(
           -- Who may create only because everybody may keeps the right.
           SELECT format('GRANT CREATE ON SCHEMA public TO %s;', coalesce(
             (SELECT owner::regrole FROM relation WHERE relname = 'orders' AND owner NOT IN (SELECT oid FROM other)),
             CASE WHEN pg_has_role(session_user, database.owner, 'USAGE') THEN database.owner::regrole END,
             quote_ident(session_user)::regrole
           )) FROM database WHERE EXISTS (SELECT FROM creator WHERE grantee = 0)
         ) || ARRAY(
           -- REVOKE ends only what the owner has granted, or the current role.
           SELECT DISTINCT CASE grantor WHEN schema.owner THEN revoke
             ELSE format('SET ROLE %s; %s RESET ROLE;', grantor::regrole, revoke) END
           FROM creator, schema, LATERAL (SELECT format(
             'REVOKE CREATE ON SCHEMA public FROM %s;', CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole || ' CASCADE' END
           ) AS revoke) AS statement ORDER BY 1
           -- Operators before the functions that they use.
         ) || ARRAY(SELECT statement FROM found ORDER BY 1) AS statements`;

/**
 * Finds out whether others could have code of theirs run with the privileges of this login. Uses no operator of the schema itself.
 *
 * @param {pg.ClientBase} db
 * @param {{ asService?: boolean }} [options] whether this login may be that of the service
 * @returns {Promise<{ message: string, remedy: string } | undefined>} what they may do or own, and the statements that end it
 */
export async function othersInSchema(db, { asService = false } = {}) {
  await db.query('BEGIN; SET LOCAL search_path = pg_catalog');
  const { rows } = await db.query(SELECT_OTHERS, [asService]).finally(() => db.query('ROLLBACK'));
  const [{ logins, objects, statements }] = /** @type {[Others]} */ (rows);
  if (statements.length === 0) return undefined;
  // Only these concern other roles' grants and tables.
  const mayOwnerRun = !statements.some((statement) => /^(?:ALTER|SET)/.test(statement));
  return {
    message: printable(
      [
        ...(logins.length > 0 ? [`${logins.join(', ')} may create in the schema public`] : []),
        ...(objects.length > 0 ? [`other roles own ${objects.join(', ')}`] : []),
      ].join(', and '),
    ),
    remedy: printable(
      [
        // First, because these may be the tables that are in use.
        ...(objects.length > 0 ? ['If you trust that role, use its login. Otherwise:'] : []),
        mayOwnerRun ? 'Run as a superuser, or as the owner of the schema:' : 'Run as a superuser:',
        ...statements,
        ...(logins.length > 0 ? [END_OTHERS] : []),
      ].join(' '),
    ),
  };
}

/**
 * @param {pg.Client} db
 * @returns {Promise<string | undefined>} what others could do with the privileges of this login, and what to do about it, in one line
 */
export async function warningOfOthers(db) {
  const others = await othersInSchema(db);
  return (
    others &&
    `Others could run code with the privileges of "${db.user}" in this database: ${others.message}. ${others.remedy}`
  );
}

/** @param {string} text with names that others have chosen: they must not command a terminal, or look like a line of their own */
function printable(text) {
  return text.replace(new RegExp(UNPRINTABLE, 'gu'), escapeOf);
}
