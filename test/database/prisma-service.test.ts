import type pg from 'pg';
import { isTransientDatabaseError, sqlStateOf } from '../../src/database/postgres-errors.js';
import { Prisma } from '../../src/database/generated/client.js';
import type { Pools } from '../../src/database/pools.js';
import { PrismaService } from '../../src/database/prisma.service.js';
import { openPool } from '../helpers/open-pool.js';
import { useTestDatabase } from '../helpers/test-database.js';

/** Port 1 of the loopback interface, where nothing listens. */
const REFUSED = 'postgresql://127.0.0.1:1/none';

const database = useTestDatabase();
let main: pg.Pool | undefined;

afterEach(() => main?.end());

function serviceOn(connectionString: string): PrismaService {
  main = openPool({ connectionString });
  return new PrismaService({ main } as Pools);
}

const failureOf = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error('nothing failed'),
    (error: unknown) => error as Error,
  );

describe('PrismaService', () => {
  it('executes a statement and returns rows without the client', async () => {
    const prisma = serviceOn(database.url);
    expect(await prisma.queryRows(Prisma.sql`SELECT 'a' || ${'b'}::text, NULL, count(*)::int FROM orders`)).toEqual([
      ['ab', null, 0],
    ]);
    expect(await prisma.execute(Prisma.sql`UPDATE orders SET quantity = 1 WHERE id = ${'1'}::text::bigint`)).toBe(0);
  });

  it.each(['execute', 'queryRows'] as const)('fails in %s with what PostgreSQL said', async (method) => {
    const prisma = serviceOn(database.url);
    const statement = Prisma.sql`SELECT 1 / length(${''}::text)`;
    const error = await failureOf(prisma[method](statement));
    expect(error.message).toBe('division by zero');
    expect(sqlStateOf(error)).toBe('22012');
    expect(isTransientDatabaseError(error)).toBe(false);
  });

  it('names the server that cannot be reached', async () => {
    const error = await failureOf(serviceOn(REFUSED).execute(Prisma.sql`SELECT 1`));
    expect(error.message).toBe('{"kind":"DatabaseNotReachable","host":"127.0.0.1","port":1}');
    expect(isTransientDatabaseError(error)).toBe(true);
  });
});
