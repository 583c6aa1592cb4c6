import type pg from 'pg';
import { othersInSchema } from '../../../prisma/engine/others-in-schema.mjs';
import type { Config } from '../../config/config.js';
import { onlyRow } from '../../database/only-row.js';
import { error, ok, type Result, skipped, warning } from './check.js';

/**
 * The rights of everybody, which a dump does not contain: a new database gives them to all logins of the server. A login that may connect
 * only because everybody may, needs the right of its own.
 */
const SELECT_PUBLIC = `
  WITH database AS (
    SELECT datname, datdba, coalesce(datacl, acldefault('d', datdba)) AS acl FROM pg_database WHERE datname = current_database()
  ), schema AS (
    SELECT acl.* FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) AS acl WHERE nspname = 'public'
  )
  SELECT ARRAY(SELECT privilege_type FROM aclexplode(acl) WHERE grantee = 0 ORDER BY 1) AS privileges,
         EXISTS (SELECT FROM schema WHERE privilege_type = 'CREATE' AND grantee = 0) AS "mayCreate",
         pg_has_role(session_user, datdba, 'USAGE') AS "isOwner",
         EXISTS (
           SELECT FROM aclexplode(acl) WHERE privilege_type = 'CONNECT' AND grantee <> 0 AND pg_has_role(session_user, grantee, 'USAGE')
         ) AS "mayConnect",
         quote_ident(datname) AS database, quote_ident(session_user) AS login, datdba::regrole::text AS owner
  FROM database`;

interface Rights {
  readonly privileges: readonly string[];
  readonly mayCreate: boolean;
  readonly isOwner: boolean;
  readonly mayConnect: boolean;
  readonly database: string;
  readonly login: string;
  readonly owner: string;
}

/** What others could do with the rights of this login. No other statement should run then. */
export async function checkOthers(db: pg.Client): Promise<Result | undefined> {
  const others = await othersInSchema(db, { asService: true });
  const message = `the commands reject this database, because others could run code with their privileges: ${others?.message}`;
  return others === undefined ? undefined : error(message, others.remedy);
}

/** What all logins of the server may do. */
export async function checkAccess(db: pg.Client, { databaseUrl }: Config): Promise<Result> {
  if (databaseUrl === undefined) {
    return skipped('the embedded database has one login');
  }
  const rights = onlyRow((await db.query<Rights>(SELECT_PUBLIC)).rows);
  const { privileges, mayCreate, isOwner, mayConnect, database, login, owner } = rights;
  const problems = [
    ...(privileges.length > 0 ? [`${privileges.join(', ')} on this database`] : []),
    ...(mayCreate ? ['CREATE in its schema public'] : []),
  ];
  if (problems.length === 0) {
    return ok('only what it was granted to may connect');
  }
  const statements = [
    ...(isOwner || mayConnect ? [] : [`GRANT CONNECT ON DATABASE ${database} TO ${login};`]),
    ...(privileges.length > 0 ? [`REVOKE ALL ON DATABASE ${database} FROM PUBLIC;`] : []),
    ...(mayCreate ? [`GRANT CREATE ON SCHEMA public TO ${owner};`, 'REVOKE CREATE ON SCHEMA public FROM PUBLIC;'] : []),
  ];
  const message = `every login of the server has ${problems.join(', and ')}`;
  // The owner cannot tell which logins connect only because everybody may.
  const first =
    isOwner && privileges.includes('CONNECT')
      ? `First GRANT CONNECT ON DATABASE ${database} TO the login of the service, which else cannot connect any more. `
      : '';
  const remedy = `${first}Run as ${mayCreate ? 'a superuser' : 'the owner of the database'}: ${statements.join(' ')}`;
  // Then this login, too, can create what runs with the privileges of the owner.
  return mayCreate && !isOwner ? error(message, remedy) : warning(message, remedy);
}
