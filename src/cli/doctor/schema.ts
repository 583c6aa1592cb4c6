import type pg from 'pg';
import { onlyRow } from '../../database/only-row.js';
import { type NameRow, NO_RENEWALS, SELECT_NAME, SELECT_PROBLEMS } from '../../orders/list/list-version.js';
import { error, ok, type Result, skipped, warning } from './check.js';
import { EXPECTED_SCHEMA, NOTIFIES, SELECT_FOREIGN, SELECT_SCHEMA } from './expected-schema.js';

/** Of what is missing, so many are named. */
const NAMED_MAX = 5;

/** Fails where psql applied the migrations: there is no record of Prisma, or no right to read it. */
const UNFINISHED = `
  SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NULL AND rolled_back_at IS NULL`;

const MIGRATE =
  'Apply the migrations: "docker compose run --rm migrate", or "npm run db:migrate" with the URL of the owner. If they are recorded as applied, ' +
  'that does nothing: restore what is missing from a backup, or with its statements from prisma/migrations/ as the owner.';

/** What the migrations have made, apart from the list and from grants, which have checks of their own. */
export async function checkSchema(db: pg.Client): Promise<Result> {
  const recorded = await db.query<{ name: string }>(UNFINISHED).catch(() => undefined);
  const unfinished = recorded?.rows[0]?.name;
  const facts = (await db.query<{ fact: string }>(SELECT_SCHEMA)).rows.map(({ fact }) => fact);
  const missing = EXPECTED_SCHEMA.filter((fact) => !facts.includes(fact));
  if (unfinished !== undefined) {
    const resolve = `If none is running, run "npx prisma migrate resolve`;
    return error(
      `the migration ${unfinished} was interrupted or has failed${missing.length === 0 ? ', but what it makes is there' : ''}`,
      missing.length === 0
        ? `${resolve} --applied ${unfinished}" as the owner, and apply the migrations again.`
        : `${resolve} --rolled-back ${unfinished}" as the owner, or with --applied if what its script makes is there, and apply the migrations again.`,
    );
  }
  if (missing.length === 0) {
    return checkOwner(db);
  }
  if (missing.join() === NOTIFIES) {
    return error(
      'the trigger api_keys_notify_changed does not report every changed key, so a revoked key is accepted while it is cached',
      'Run as the owner: ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_notify_changed.',
    );
  }
  const more = missing.length > NAMED_MAX ? `; and ${missing.length - NAMED_MAX} more` : '';
  return error(`missing: ${missing.slice(0, NAMED_MAX).join('; ')}${more}`, MIGRATE);
}

/** A migration by a superuser, or by a member of the owner, leaves objects that the owner cannot change in the next one. */
async function checkOwner(db: pg.Client): Promise<Result> {
  const { rows } = await db.query<Readonly<Record<'name' | 'owner' | 'rightful', string>>>(SELECT_FOREIGN);
  if (rows.length === 0) {
    return ok('as the migrations made it');
  }
  const found = rows.map(({ name, owner }) => `${name} to ${owner}`).join(', ');
  const statements = rows.map(({ name, rightful }) => `ALTER ${name} OWNER TO ${rightful};`).join(' ');
  return warning(
    `not everything belongs to ${rows[0]?.rightful}, but ${found}: later migrations may fail`,
    `Run as a superuser: ${statements} Apply migrations with the login of the owner.`,
  );
}

export async function checkList(db: pg.Client): Promise<Result> {
  const { rows } = await db.query<{ orders: string | null }>("SELECT to_regclass('public.orders') AS orders");
  if (onlyRow(rows).orders === null) {
    return skipped('there is no table orders');
  }
  const { catalogue, renewals } = onlyRow((await db.query<NameRow>(SELECT_NAME)).rows);
  const [found] = (await db.query<{ problems: string[] }>(SELECT_PROBLEMS, [catalogue])).rows;
  const problems = [...(found?.problems ?? []), ...(renewals === null ? [NO_RENEWALS] : [])];
  return problems.length === 0
    ? ok('served from versions')
    : warning(
        problems.join('; '),
        'Restore what the newest migration with its name made, for example with ALTER TABLE orders ENABLE ALWAYS TRIGGER NAME. ' +
          'Until then every list is read whole, without ETag: correct, but slow.',
      );
}
