import type pg from 'pg';
import { SERVICE_PRIVILEGES, SERVICE_ROLE } from './expected-privileges.js';
import { error, type Finding, list, ok, warning } from './finding.js';
import { rowOf } from './row-of.js';

/** A privilege of a role on a table, sequence or function. */
interface Privilege {
  /** As in GRANT. */
  readonly object: string;
  readonly privilege: string;
  /** On the whole object. */
  readonly whole: boolean;
  /** The columns that the privilege covers. */
  readonly columns: readonly string[];
}

export interface RoleFacts {
  readonly role: string;
  /** The role owns the tables or is a superuser. */
  readonly isOwner: boolean;
  readonly isEmbedded: boolean;
  readonly isMember: boolean;
  /** The role whose privileges these are: the service's, when the connection is the owner's. */
  readonly examined: string | undefined;
  /** Such as `CREATEROLE`. */
  readonly attributes: readonly string[];
  /** Memberships other than in the role of the service. */
  readonly memberships: readonly string[];
  readonly privileges: readonly Privilege[];
  readonly usesSchema: boolean;
  readonly createsInSchema: boolean;
}

const ROLE = `
  SELECT session_user AS role,
         rolsuper OR EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('public.orders')
                             AND pg_has_role(session_user, relowner, 'USAGE')) AS "isOwner",
         EXISTS (SELECT FROM pg_roles WHERE rolname = $1) AS "hasServiceRole"
  FROM pg_roles WHERE rolname = session_user`;

const EXAMINED_ROLE = `
  SELECT coalesce(bool_or(rolname = $2), false) AS "isMember",
         coalesce(array_agg(rolname::text ORDER BY rolname) FILTER (WHERE rolname NOT IN ($1, $2)), '{}') AS memberships,
         (SELECT array_remove(ARRAY[CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN rolcreaterole THEN 'CREATEROLE' END,
             CASE WHEN rolcreatedb THEN 'CREATEDB' END, CASE WHEN rolreplication THEN 'REPLICATION' END,
             CASE WHEN rolbypassrls THEN 'BYPASSRLS' END], NULL)
          FROM pg_roles WHERE rolname = $1) AS attributes,
         has_schema_privilege($1, 'public', 'USAGE') AS "usesSchema",
         has_schema_privilege($1, 'public', 'CREATE') AS "createsInSchema"
  FROM pg_roles WHERE rolname <> $1 AND pg_has_role($1, oid, 'MEMBER')`;

/** Of the functions, those that run with the privileges of their owner, who owns the tables. */
const PRIVILEGES = `
  SELECT relname::text AS object, privilege, has_table_privilege($1, relation.oid, privilege) AS whole,
         ARRAY(SELECT attname::text FROM pg_attribute
               WHERE by_column AND attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
                 AND has_column_privilege($1, relation.oid, attnum, privilege) ORDER BY attnum) AS columns
  FROM pg_class AS relation
  CROSS JOIN (VALUES ('SELECT', true), ('INSERT', true), ('UPDATE', true), ('REFERENCES', true),
                     ('DELETE', false), ('TRUNCATE', false), ('TRIGGER', false)) AS privileges (privilege, by_column)
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
  UNION ALL
  SELECT 'SEQUENCE ' || relname, privilege, has_sequence_privilege($1, oid, privilege), '{}'
  FROM (SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'S' OFFSET 0) AS sequence
  CROSS JOIN (VALUES ('SELECT'), ('UPDATE'), ('USAGE')) AS privileges (privilege)
  UNION ALL
  SELECT 'FUNCTION ' || oid::regprocedure, 'EXECUTE', has_function_privilege($1, oid, 'EXECUTE'), '{}'
  FROM pg_proc
  WHERE pronamespace = 'public'::regnamespace AND prosecdef
    AND proowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('public.orders'))
  ORDER BY object, privilege`;

export async function readRole(db: pg.Client, isEmbedded: boolean): Promise<RoleFacts> {
  const { hasServiceRole, ...login } = await rowOf<Pick<RoleFacts, 'role' | 'isOwner'> & { hasServiceRole: boolean }>(
    db,
    ROLE,
    [SERVICE_ROLE],
  );
  const serviceRole = hasServiceRole ? SERVICE_ROLE : undefined;
  const examined = login.isOwner ? serviceRole : login.role;
  const parameters = [examined ?? login.role];
  return {
    ...login,
    isEmbedded,
    examined,
    ...(await rowOf<Pick<RoleFacts, 'isMember' | 'memberships' | 'attributes' | 'usesSchema' | 'createsInSchema'>>(
      db,
      EXAMINED_ROLE,
      [...parameters, SERVICE_ROLE],
    )),
    privileges: (await db.query<Privilege>(PRIVILEGES, parameters)).rows,
  };
}

export function roleFinding(facts: RoleFacts): Finding {
  const { role: name, isOwner, isEmbedded, isMember, examined } = facts;
  if (isEmbedded) {
    return ok(`"${name}" owns the embedded database`);
  }
  const [missing, superfluous] = [missingOf(facts), superfluousOf(facts)];
  if (examined === undefined) {
    return warning(
      `"${name}" is the owner, and there is no role ${SERVICE_ROLE}`,
      `Have an administrator create the role ${SERVICE_ROLE} and apply the grants of the migrations to it; let the service log in as a member.`,
    );
  }
  if (missing.length > 0) {
    const isMembershipMissing = !isMember && examined === name;
    const excess = superfluous.length === 0 ? '' : `, and has more than it needs: ${list(superfluous)}`;
    return error(
      `"${examined}" lacks ${list(missing)}${excess}`,
      isMembershipMissing
        ? `Run as the owner: GRANT ${SERVICE_ROLE} TO "${name}".`
        : `Run as the owner: ${missing.map((grant) => `GRANT ${grant} TO ${SERVICE_ROLE}`).join('; ')}.`,
      [...missing, ...superfluous],
    );
  }
  if (superfluous.length > 0) {
    return warning(
      `"${examined}" has more than it needs: ${list(superfluous)}`,
      `Revoke what the service does not need from "${examined}", from the roles that it is a member of, and from PUBLIC.`,
      superfluous,
    );
  }
  return isOwner
    ? warning(
        `"${name}" owns the tables or is a superuser`,
        `Run this command with the DATABASE_URL of the service, whose login should be a member of ${SERVICE_ROLE} only.`,
      )
    : ok(`"${name}" has what the service needs and nothing else`);
}

function missingOf({ privileges, usesSchema }: RoleFacts): string[] {
  const missing = privileges.flatMap(({ object, privilege, whole, columns }) => {
    const expected = SERVICE_PRIVILEGES[object]?.[privilege];
    if (expected === undefined || whole) {
      return [];
    }
    return expected === 'whole'
      ? [`${privilege} ON ${object}`]
      : grantOfColumns(
          object,
          privilege,
          expected.filter((column) => !columns.includes(column)),
        );
  });
  return usesSchema ? missing : ['USAGE ON SCHEMA public', ...missing];
}

function superfluousOf({ privileges, createsInSchema, attributes, memberships }: RoleFacts): string[] {
  return [
    ...attributes,
    ...memberships.map((name) => `membership in ${name}`),
    ...(createsInSchema ? ['CREATE ON SCHEMA public'] : []),
    ...privileges.flatMap(({ object, privilege, whole, columns }) => {
      const expected = SERVICE_PRIVILEGES[object]?.[privilege];
      if (expected === 'whole') {
        return [];
      }
      return whole
        ? [`${privilege} ON ${object}`]
        : grantOfColumns(
            object,
            privilege,
            columns.filter((column) => expected?.includes(column) !== true),
          );
    }),
  ];
}

function grantOfColumns(table: string, privilege: string, columns: readonly string[]): string[] {
  return columns.length === 0 ? [] : [`${privilege} (${columns.join(', ')}) ON ${table}`];
}
