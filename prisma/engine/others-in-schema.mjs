/** @import pg from 'pg' */

/**
 * Roles that have got the right to create from somebody, other than the owners of the database, the schema and the tables, this login
 * and its roles. PostgreSQL up to 14, and a database that was upgraded from it, gives it to everybody.
 */
const SELECT_OTHERS = `
  SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS name
  FROM pg_namespace, aclexplode(nspacl)
  WHERE nspname = 'public' AND privilege_type = 'CREATE' AND grantee NOT IN (
    SELECT nspowner
    UNION SELECT datdba FROM pg_database WHERE datname = current_database()
    UNION SELECT relowner FROM pg_class WHERE relnamespace = pg_namespace.oid AND relname = 'orders'
    UNION SELECT oid FROM pg_roles WHERE rolname IN (session_user, 'pg_database_owner')
    UNION SELECT roleid FROM pg_auth_members JOIN pg_roles ON pg_roles.oid = member WHERE rolname = session_user
  )
  ORDER BY name`;

/**
 * Whoever may create in the schema may have functions and operators there, which PostgreSQL runs with the privileges of the login
 * whose statement uses them. So this one uses none of the schema.
 *
 * @param {pg.ClientBase} db
 * @returns {Promise<{ message: string, remedy: string } | undefined>} who else may create, and the statements that end it
 */
export async function othersInSchema(db) {
  await db.query('BEGIN; SET LOCAL search_path = pg_catalog');
  const { rows } = await db.query(SELECT_OTHERS).finally(() => db.query('ROLLBACK'));
  if (rows.length === 0) return undefined;
  const names = rows.map(({ name }) => name).join(', ');
  return {
    message: `${names} may create in the schema public, and so run code as whoever uses it`,
    remedy:
      `Run as the owner of the schema: REVOKE CREATE ON SCHEMA public FROM ${names}; ` +
      'docs/operations.md, "Who may create in the schema", says what the owner of the tables needs before.',
  };
}
