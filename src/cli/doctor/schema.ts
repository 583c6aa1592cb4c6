import type pg from 'pg';
import { MIGRATIONS, TRIGGERS } from './expected-migrations.js';
import { error, type Finding, type Findings, list, ok, warning } from './finding.js';
import { rowOf } from './row-of.js';

export const SCHEMA_CHECKS = ['migrations', 'triggers'];

const APPLY = 'Apply the migrations: "docker compose up migrate", or "npm run db:migrate" with the URL of the owner.';

export interface SchemaFacts {
  /** The migrations recorded as applied; undefined when the role may not read the record. */
  readonly applied: readonly string[] | undefined;
  readonly failed: readonly string[];
  /** Migrations whose objects are not in the database. */
  readonly withoutObjects: readonly string[];
  /** Triggers that are missing, or enabled in another mode than expected. */
  readonly wrongTriggers: readonly string[];
  readonly hasRowSecurity: boolean;
}

const RECORD_IS_READABLE = `
  SELECT coalesce(has_table_privilege(to_regclass('public._prisma_migrations'), 'SELECT'), false) AS readable`;

const RECORD = `
  SELECT migration_name AS name, finished_at IS NOT NULL AS finished FROM _prisma_migrations WHERE rolled_back_at IS NULL`;

const OBJECTS = `SELECT ${Object.entries(MIGRATIONS)
  .map(([name, isApplied]) => `${isApplied ?? 'true'} AS "${name}"`)
  .join(', ')}`;

const TABLE_STATE = `
  SELECT ARRAY(SELECT name FROM json_each_text($1) AS expected (name, mode)
               WHERE NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = name AND tgenabled = mode::"char")) AS "wrongTriggers",
         coalesce((SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('public.orders')), false) AS "hasRowSecurity"`;

/** As in `pg_trigger.tgenabled`: `A` or `R`. */
const TRIGGER_MODES = Object.fromEntries(Object.entries(TRIGGERS).map(([name, { mode }]) => [name, mode.charAt(0)]));

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
    ...(await rowOf<Pick<SchemaFacts, 'wrongTriggers' | 'hasRowSecurity'>>(db, TABLE_STATE, [TRIGGER_MODES])),
  };
}

export function schemaFindings(facts: SchemaFacts): Findings {
  return { migrations: migrationsFinding(facts), triggers: triggersFinding(facts) };
}

function migrationsFinding({ applied, failed, withoutObjects }: SchemaFacts): Finding {
  const expected = Object.keys(MIGRATIONS);
  if (failed.length > 0) {
    return error(
      `failed: ${list(failed)}`,
      'Read the log of the migration, undo what it left, and run "prisma migrate resolve --rolled-back NAME"; then apply it.',
    );
  }
  const missing = expected.filter((name) => applied?.includes(name) === false);
  if (missing.length > 0 || (applied === undefined && withoutObjects.length > 0)) {
    return error(`missing: ${list(missing.length > 0 ? missing : withoutObjects)}`, APPLY);
  }
  if (withoutObjects.length > 0) {
    return error(
      `recorded, but its objects are missing: ${list(withoutObjects)}`,
      'Somebody has dropped them, or a backup was restored in part. Restore a complete backup.',
    );
  }
  const newer = applied?.filter((name) => !expected.includes(name)) ?? [];
  if (newer.length > 0) {
    return warning(
      `all applied, and ${newer.length} that this version does not know`,
      'A newer version has migrated the database. Update this one; it works meanwhile if it is the previous release.',
      newer,
    );
  }
  return ok(`all ${expected.length} applied${applied === undefined ? ', as far as this role can see' : ''}`);
}

function triggersFinding({ wrongTriggers, hasRowSecurity }: SchemaFacts): Finding {
  if (wrongTriggers.length > 0) {
    const repairs = Object.entries(TRIGGERS)
      .filter(([name]) => wrongTriggers.includes(name))
      .map(([name, { table, mode }]) => `ALTER TABLE ${table} ENABLE ${mode} TRIGGER ${name};`);
    return error(
      `disabled, missing or in the wrong mode: ${list(wrongTriggers)}`,
      `Run as the owner: ${repairs.join(' ')} Then restart the service: it may not have noticed changes and may serve ` +
        'an outdated list.',
    );
  }
  return hasRowSecurity
    ? error(
        'row-level security is enabled for orders',
        'Run ALTER TABLE orders DISABLE ROW LEVEL SECURITY: a policy that hides rows makes every list fail.',
      )
    : ok('enabled');
}
