import { insertOrder } from '../helpers/builders.js';
import { applyMigration, installFirstRelease } from '../helpers/first-release.js';
import { openTransaction } from '../helpers/lock-waits.js';
import { useTestDatabase } from '../helpers/test-database.js';

/** The migration of 1.1.0. Later ones may lock the tables, and change what 1.0.0 knows. */
const MIGRATION = '20261127000000_merge_order_list_changes';

/** What a process of a release knows of the tables and functions: columns, constraints, triggers and functions with their definitions. */
const FACTS = `
  SELECT concat('column ', attrelid::regclass, '.', attname, ' ', format_type(atttypid, atttypmod), ' ', attnotnull) AS fact
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r' AND relnamespace = 'public'::regnamespace
    WHERE attnum > 0 AND NOT attisdropped AND relname NOT LIKE '\\_prisma%'
  UNION ALL SELECT concat('constraint ', conrelid::regclass, ' ', conname, ' ', pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT concat('trigger ', tgenabled, ' ', pg_get_triggerdef(oid)) FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT concat('function ', pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  ORDER BY 1`;

const database = useTestDatabase();

async function facts(): Promise<string[]> {
  return (await database.db.query<{ fact: string }>(FACTS)).rows.map(({ fact }) => fact);
}

it('the update beside a process of 1.0.0: it leaves all that this knows, and waits neither for its lists nor its cancels', async () => {
  const { db } = database;
  await installFirstRelease(database);
  const id = await insertOrder(db);
  const known = await facts();
  expect(known.filter((fact) => fact.startsWith('trigger'))).toHaveLength(5);
  const list = await openTransaction(db, 'LOCK TABLE orders IN ACCESS SHARE MODE; SELECT FROM order_list_changes');
  const cancel = await openTransaction(
    db,
    `UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = ${id}`,
  );
  await applyMigration(database, MIGRATION);
  await Promise.all([list('COMMIT'), cancel('COMMIT')]);
  expect(await facts()).toEqual(expect.arrayContaining(known));
});
