import { createHash } from 'node:crypto';
import type pg from 'pg';
import { error, listOf, ok, type Result, warning } from './check.js';
import { EXPECTED } from './expected-schema.js';

export const MIGRATE =
  'Apply the migrations: "docker compose run --rm migrate", or "npm run db:migrate" with the URL of the owner.';

const RESTORE = 'Restore it from a backup, or as the owner with its statements from prisma/migrations/.';

const SELECT_DEFINITIONS = `
  SELECT format('constraint %s of %s', conname, relname) AS object, pg_get_constraintdef(pg_constraint.oid) AS definition
  FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE relnamespace = 'public'::regnamespace AND contype <> 'n'
  UNION ALL
  SELECT format('index %s', relname), pg_get_indexdef(oid)
  FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'i'
    AND oid NOT IN (SELECT conindid FROM pg_constraint)
  UNION ALL
  SELECT format('trigger %s of %s', tgname, relname), concat(pg_get_triggerdef(pg_trigger.oid), tgenabled)
  FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace = 'public'::regnamespace AND NOT tgisinternal
  UNION ALL
  SELECT format('function %s', proname), pg_get_functiondef(oid)
  FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'`;

/** What is in the schema, as {@link EXPECTED}. */
export async function definitionsIn(db: pg.ClientBase): Promise<Map<string, string>> {
  const { rows } = await db.query<Record<'object' | 'definition', string>>(SELECT_DEFINITIONS);
  const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8);
  return new Map(rows.map(({ object, definition }) => [object, digestOf(definition)]));
}

/** Fails where psql applied the migrations: there is no record of Prisma, or no right to read it. */
const UNFINISHED = `
  SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NULL AND rolled_back_at IS NULL`;

/** Whether the schema is as the migrations made it. What others have added is not checked. */
export async function checkSchema(db: pg.Client): Promise<Result> {
  const recorded = await db.query<{ name: string }>(UNFINISHED).catch(() => undefined);
  const unfinished = recorded?.rows[0]?.name;
  if (unfinished !== undefined) {
    return error(
      `the migration ${unfinished} is running, was interrupted or has failed`,
      `If none is running, run "npx prisma migrate resolve --rolled-back ${unfinished}" as the owner (with --applied if what it makes ` +
        'is there), and apply the migrations again.',
    );
  }
  const found = await definitionsIn(db);
  const missing = Object.keys(EXPECTED).filter((object) => !found.has(object));
  if (missing.length > 0) {
    return error(`missing: ${listOf(missing)}`, `${MIGRATE} If they are applied: ${RESTORE}`);
  }
  const changed = Object.keys(EXPECTED).filter((object) => found.get(object) !== EXPECTED[object]);
  return changed.length > 0
    ? warning(
        `not as the migrations of this version make it: ${listOf(changed)}`,
        `Unless a newer version did it: ${RESTORE}`,
      )
    : ok('as the migrations made it');
}
