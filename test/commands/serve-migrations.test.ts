import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { migrate } from '../../src/cli/embedded/migrate.js';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import { prismaMigrate } from '../helpers/prisma-migrate.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(() => database.drop());

const NAMES = readdirSync(join(PROJECT_ROOT, 'prisma', 'migrations')).filter((name) => /^\d/.test(name));

/** Undoes the third migration. */
const UNDO = `DROP TABLE api_key_usage; DELETE FROM _prisma_migrations WHERE migration_name = '${NAMES[2]}'`;

/** Lets its second statement fail. */
const STOP = `
  CREATE FUNCTION stop_here() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stopped'; END $$;
  CREATE EVENT TRIGGER stop_here ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION stop_here()`;

async function applied(): Promise<unknown[]> {
  const { rows } = await database.db.query('SELECT migration_name FROM _prisma_migrations ORDER BY 1');
  return rows.map(({ migration_name: name }: { migration_name: string }) => name);
}

describe('the migrations of the embedded database', () => {
  it('leave it in the state in which `prisma migrate` expects it, and are applied once', async () => {
    await database.db.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    await migrate(database.url);
    expect(await applied()).toEqual(NAMES);
    expect(await prismaMigrate('deploy', database.url)).toContain('No pending migrations to apply');
    await migrate(database.url);
    expect(await applied()).toEqual(NAMES);
  });

  it('record nothing of one that ends in the middle, and repeat it', async () => {
    await database.db.query(`${UNDO}; ${STOP}`);
    await expect(migrate(database.url)).rejects.toThrow('stopped');
    expect((await database.db.query("SELECT to_regclass('api_key_usage') AS found")).rows).toEqual([{ found: null }]);
    await database.db.query('DROP FUNCTION stop_here CASCADE');
    await migrate(database.url);
    expect(await applied()).toEqual(NAMES);
  });
});
