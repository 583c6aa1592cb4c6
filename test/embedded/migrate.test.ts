import { isMigrated } from '../../src/embedded/migrate.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(() => database.drop());

const LAST = 'WHERE migration_name = (SELECT max(migration_name) FROM _prisma_migrations)';

describe('a database is migrated', () => {
  it('when `prisma migrate deploy` has applied every migration', async () => {
    expect(await isMigrated(database.url)).toBe(true);
  });

  it.each([
    ['a migration is missing', `DELETE FROM _prisma_migrations ${LAST}`],
    ['a migration has failed', `UPDATE _prisma_migrations SET finished_at = NULL ${LAST}`],
    ['a migration was rolled back', `UPDATE _prisma_migrations SET rolled_back_at = now() ${LAST}`],
    ['a migration has changed since', `UPDATE _prisma_migrations SET checksum = 'other' ${LAST}`],
    ['it has a migration of another version', `UPDATE _prisma_migrations SET migration_name = '99990101_new' ${LAST}`],
    ['it has no migrations', 'DROP TABLE _prisma_migrations'],
  ])('not when %s', async (_what, statement) => {
    await database.db.query(statement);
    expect(await isMigrated(database.url)).toBe(false);
  });

  it('not when it does not exist', async () => {
    expect(await isMigrated(`${database.url}_missing`)).toBe(false);
  });
});
