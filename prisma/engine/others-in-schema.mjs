/**
 * Whoever may create in a schema of the search path may have functions and operators there, which PostgreSQL runs with the privileges
 * of the login whose statement uses them: for other types, `public.=` is preferred to its own. In clusters of PostgreSQL 14 and earlier,
 * also after an upgrade, everybody may create in the schema `public`.
 */

/** @import pg from 'pg' */

/**
 * @typedef {object} Others
 * @property {string[]} logins that may connect and create in the schema
 * @property {string[]} grantees the roles that the right is granted to, as in REVOKE
 * @property {string[]} objects operators and routines there that belong to others, as in DROP
 * @property {string | null} owner of the tables, or of the database while there are none, as in GRANT
 */

/** Others are all but superusers and those who may act as this login, or as the owner of the database, of the schema or of the tables. */
const SELECT_OTHERS = `
  WITH schema AS (
    SELECT nspowner AS owner, coalesce(nspacl, acldefault('n', nspowner)) AS acl FROM pg_namespace WHERE nspname = 'public'
  ), table_owner AS (
    SELECT relowner FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'public' AND relname = 'orders'
  ), trusted AS (
    SELECT oid FROM pg_roles WHERE rolname = session_user
    UNION SELECT datdba FROM pg_database WHERE datname = current_database()
    UNION SELECT owner FROM schema
    UNION SELECT relowner FROM table_owner
  ), other AS (
    SELECT pg_roles.oid, rolname, rolcanlogin FROM pg_roles
    WHERE NOT rolsuper AND NOT EXISTS (SELECT FROM trusted WHERE pg_has_role(pg_roles.oid, trusted.oid, 'MEMBER'))
  ), creator AS (
    SELECT rolname, grantee FROM other, schema, aclexplode(acl)
    WHERE privilege_type = 'CREATE' AND (grantee = 0 OR pg_has_role(other.oid, grantee, 'MEMBER'))
      AND rolcanlogin AND has_database_privilege(other.oid, (SELECT oid FROM pg_database WHERE datname = current_database()), 'CONNECT')
  )
  SELECT ARRAY(SELECT DISTINCT rolname::text FROM creator ORDER BY 1) AS logins,
         ARRAY(SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END FROM creator ORDER BY 1) AS grantees,
         ARRAY(
           SELECT 'OPERATOR ' || pg_operator.oid::regoperator FROM pg_operator JOIN pg_namespace ON pg_namespace.oid = oprnamespace
             JOIN other ON other.oid = oprowner WHERE nspname = 'public'
           UNION ALL
           SELECT 'ROUTINE ' || pg_proc.oid::regprocedure FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
             JOIN other ON other.oid = proowner WHERE nspname = 'public'
         ) AS objects,
         (SELECT quote_ident(rolname) FROM pg_roles WHERE NOT rolsuper AND oid = coalesce(
           (SELECT relowner FROM table_owner), (SELECT datdba FROM pg_database WHERE datname = current_database())
         )) AS owner`;

/**
 * Finds out whether others could have code of theirs run with the privileges of this login. Uses no operator of the schema itself.
 *
 * @param {pg.ClientBase} db
 * @returns {Promise<{ message: string, remedy: string } | undefined>} what they may do or own, and the statements that end it
 */
export async function othersInSchema(db) {
  // One result for each statement; the type of `pg` is that of a single one.
  const results = /** @type {pg.QueryResult<Others>[]} */ (
    /** @type {unknown} */ (await db.query(`BEGIN; SET LOCAL search_path = pg_catalog; ${SELECT_OTHERS}; COMMIT`))
  );
  const found = results[2]?.rows[0];
  if (found === undefined || found.logins.length + found.objects.length === 0) return undefined;
  const { logins, grantees, objects, owner } = found;
  const quoted = logins.map((login) => `"${login}"`).join(', ');
  return {
    message: [
      ...(logins.length > 0 ? [`${quoted} may create in the schema public`] : []),
      ...(objects.length > 0 ? [`other roles own ${objects.join(', ')}`] : []),
    ].join(', and '),
    remedy: [
      'Run as a superuser, or as the owner of the schema:',
      // Who had the right as everybody has it keeps it.
      ...(grantees.includes('PUBLIC') && owner !== null ? [`GRANT CREATE ON SCHEMA public TO ${owner};`] : []),
      ...(grantees.length > 0 ? [`REVOKE CREATE ON SCHEMA public FROM ${grantees.join(', ')};`] : []),
      // They may be of use to somebody.
      ...(objects.length > 0
        ? [...objects.map((object) => `DROP ${object};`), 'Or give them to the owner of the tables, if you trust them.']
        : []),
    ].join(' '),
  };
}

/**
 * @param {pg.Client} db
 * @throws {Error} when others could have code of theirs run with the privileges of this login
 */
export async function rejectOthersInSchema(db) {
  const others = await othersInSchema(db);
  if (others !== undefined) {
    throw new Error(
      `Others could run code with the privileges of "${db.user}" in this database: ${others.message}. ${others.remedy}`,
    );
  }
}
