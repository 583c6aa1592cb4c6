import type pg from 'pg';
import type { Clock } from '../../../common/clock.js';
import { MIGRATIONS, TRIGGERS } from '../expected-migrations.js';
import { SERVICE_ROLE } from '../expected-privileges.js';
import type { ExpiringKeys, RoleFacts, SchemaFacts, ServerFacts, TablePrivilege } from '../facts.js';

const KEYS_LISTED = 5;

const SERVER = `
  SELECT current_setting('server_version') AS version,
         current_setting('server_version_num')::integer AS "versionNumber",
         current_database() AS database,
         pg_is_in_recovery() AS "isStandby",
         current_setting('default_transaction_read_only') = 'on' AS "isReadOnly",
         pg_backend_pid() AS "backendId",
         least(
           current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
             - coalesce(current_setting('reserved_connections', true)::integer, 0),
           (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user),
           (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())
         ) AS "connectionLimit",
         (SELECT count(*)::integer FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'petstore-listener') AS processes`;

export async function readServer(
  db: pg.Client,
  isEmbedded: boolean,
  clock: Clock,
): Promise<Omit<ServerFacts, 'startProblems'>> {
  const { backendId, ...server } = await rowOf<
    Omit<ServerFacts, 'address' | 'clockDifferenceMs' | 'isEmbedded' | 'isPooled' | 'startProblems'> & {
      backendId: number;
    }
  >(db, SERVER);
  const sentMs = clock.now();
  const { nowMs } = await rowOf<{ nowMs: number }>(
    db,
    'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs"',
  );
  return {
    ...server,
    isEmbedded,
    address: `${db.host}:${db.port}`,
    // The server read its clock halfway between the two readings.
    clockDifferenceMs: (sentMs + clock.now()) / 2 - nowMs,
    // A pooler gives its clients process ids of its own. Not in the types of pg.
    isPooled: (db as unknown as { processID: number }).processID !== backendId,
  };
}

const RECORD_IS_READABLE = `
  SELECT coalesce(has_table_privilege(to_regclass('public._prisma_migrations'), 'SELECT'), false) AS readable`;

const RECORD = `
  SELECT migration_name AS name, finished_at IS NOT NULL AS finished FROM _prisma_migrations WHERE rolled_back_at IS NULL`;

const OBJECTS = `SELECT ${Object.entries(MIGRATIONS)
  .map(([name, isApplied]) => `${isApplied ?? 'true'} AS "${name}"`)
  .join(', ')}`;

const TABLE_STATE = `
  SELECT ARRAY(SELECT name FROM unnest($1::text[]) AS name
               WHERE NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = name AND tgenabled IN ('A', 'O'))) AS "disabledTriggers",
         coalesce((SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('public.orders')), false) AS "hasRowSecurity"`;

export async function readSchema(db: pg.Client): Promise<SchemaFacts> {
  const { readable } = await rowOf<{ readable: boolean }>(db, RECORD_IS_READABLE);
  const record = readable ? (await db.query<{ name: string; finished: boolean }>(RECORD)).rows : undefined;
  const namesOf = (finished: boolean): string[] | undefined =>
    record?.filter((migration) => migration.finished === finished).map(({ name }) => name);
  const objects = await rowOf<Record<string, boolean>>(db, OBJECTS);
  return {
    applied: namesOf(true),
    failed: namesOf(false) ?? [],
    withoutObjects: Object.keys(objects).filter((name) => objects[name] !== true),
    ...(await rowOf<Pick<SchemaFacts, 'disabledTriggers' | 'hasRowSecurity'>>(db, TABLE_STATE, [TRIGGERS])),
  };
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

const TABLE_PRIVILEGES = `
  SELECT relation.relname::text AS table, privilege, has_table_privilege($1, relation.oid, privilege) AS whole,
         ARRAY(SELECT attname::text FROM pg_attribute
               WHERE by_column AND attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
                 AND has_column_privilege($1, relation.oid, attnum, privilege) ORDER BY attnum) AS columns
  FROM pg_class AS relation
  CROSS JOIN (VALUES ('SELECT', true), ('INSERT', true), ('UPDATE', true), ('REFERENCES', true),
                     ('DELETE', false), ('TRUNCATE', false), ('TRIGGER', false)) AS privileges (privilege, by_column)
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
  ORDER BY relname, privilege`;

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
    tables: (await db.query<TablePrivilege>(TABLE_PRIVILEGES, parameters)).rows,
  };
}

const EXPIRING_KEYS = `
  SELECT id, expires_at AS "expiresAt", count(*) OVER ()::integer AS count FROM api_keys
  WHERE revoked_at IS NULL AND expires_at > now() AND expires_at <= now() + interval '30 days'
  ORDER BY expires_at LIMIT ${KEYS_LISTED}`;

export async function readExpiringKeys(db: pg.Client): Promise<ExpiringKeys> {
  const { rows } = await db.query<{ id: string; expiresAt: Date; count: number }>(EXPIRING_KEYS);
  return { count: rows[0]?.count ?? 0, keys: rows.map(({ id, expiresAt }) => ({ id, expiresAt })) };
}

async function rowOf<T extends pg.QueryResultRow>(
  db: pg.Client,
  sql: string,
  parameters?: readonly unknown[],
): Promise<T> {
  const { rows } = await db.query<T>(sql, parameters as unknown[] | undefined);
  const [row] = rows;
  if (row === undefined) {
    throw new Error('The database returned no row.');
  }
  return row;
}
