import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Socket, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import type pg from 'pg';
import { loadConfig } from '../../src/config/config.js';
import { Pools } from '../../src/database/pools.js';
import {
  databaseMessageOf,
  isTransientDatabaseError,
  markConnectionErrors,
  sqlStateOf,
} from '../../src/database/postgres-errors.js';
import { PrismaService } from '../../src/database/prisma.service.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { CLI } from '../helpers/build.js';
import { listen } from '../helpers/listen.js';
import { openPool } from '../helpers/open-pool.js';
import { useTestDatabase } from '../helpers/test-database.js';

describe('a session of the main pool', () => {
  const database = useTestDatabase();
  let pools: Pools;
  let session: pg.PoolClient;
  beforeAll(async () => {
    const config = loadConfig({ DATABASE_URL: database.url, CANCEL_LOCK_TIMEOUT_MS: '15000' });
    pools = new Pools(config, new Metrics());
    session = await pools.main.connect();
  });
  afterAll(async () => {
    session.release();
    await pools.onApplicationShutdown();
  });

  it('has CANCEL_LOCK_TIMEOUT_MS as its lock timeout, and a longer statement timeout', async () => {
    const { rows } = await session.query<{ setting: string }>(
      "SELECT setting FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout') ORDER BY name",
    );
    const [lockTimeout, statementTimeout] = rows.map(({ setting }) => Number(setting));
    expect(lockTimeout).toBe(15_000);
    expect(statementTimeout).toBeGreaterThan(15_000);
  });

  it('plans a statement once, and uses the index even if the table was small at that time', async () => {
    await session.query(`INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1)`);
    await session.query('ANALYZE orders');
    await session.query('PREPARE one (text) AS SELECT FROM orders WHERE id = ANY($1::bigint[])');
    const { rows } = await session.query<{ 'QUERY PLAN': string }>("EXPLAIN EXECUTE one('{1}')");
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toContain('$1');
    expect(plan).toContain('Index');
    expect(plan).not.toContain('Seq Scan');
  });
});

describe('Prisma', () => {
  /** Port 1 of the loopback interface, where nothing listens. */
  const REFUSED = 'postgresql://127.0.0.1:1/none';

  const database = useTestDatabase();
  let main: pg.Pool | undefined;

  afterEach(() => main?.end());

  function serviceOn(options: pg.PoolConfig): PrismaService {
    main = openPool(options);
    markConnectionErrors(main, 'query');
    markConnectionErrors(main, 'connect');
    return new PrismaService({ main } as Pools);
  }

  const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      () => new Error('nothing failed'),
      (error: unknown) => error,
    );

  const newKey = (
    name: string,
  ): { name: string; keyPrefix: string; keyHash: Uint8Array<ArrayBuffer>; plan: 'free' } => ({
    name,
    keyPrefix: 'pst_012345',
    keyHash: new Uint8Array(32),
    plan: 'free',
  });

  describe('an error of PrismaService has the SQLSTATE and the words of PostgreSQL', () => {
    test.each<[what: string, fail: (prisma: PrismaService) => Promise<unknown>, sqlState: string, message: string]>([
      ['a query', (prisma) => prisma.$queryRaw`SELECT 1 / length(${''})`, '22012', 'division by zero'],
      ['a statement', (prisma) => prisma.$executeRaw`SELECT 1 / length(${''})`, '22012', 'division by zero'],
      [
        'a model',
        (prisma) => prisma.apiKey.create({ data: newKey(' ') }),
        '23514',
        'new row for relation "api_keys" violates check constraint "api_keys_name_not_blank"',
      ],
      [
        'a model with a code of its own for the error',
        (prisma) => prisma.apiKey.createMany({ data: [newKey('a'), newKey('b')] }),
        '23505',
        'duplicate key value violates unique constraint "api_keys_key_hash_key"',
      ],
    ])('%s', async (_what, fail, sqlState, message) => {
      const error = await failureOf(fail(serviceOn({ connectionString: database.url })));
      expect([sqlStateOf(error), isTransientDatabaseError(error)]).toEqual([sqlState, false]);
      expect(databaseMessageOf(error)).toBe(message);
    });

    it('and none when Prisma itself reports it', async () => {
      const prisma = serviceOn({ connectionString: database.url });
      const id = '00000000-0000-4000-8000-000000000000';
      const error = await failureOf(prisma.apiKey.update({ where: { id }, data: { plan: 'pro' } }));
      expect([sqlStateOf(error), isTransientDatabaseError(error)]).toEqual([undefined, false]);
      expect(databaseMessageOf(error)).toMatch(/^An operation failed .* No record was found for an update\.$/);
    });
  });

  describe('while the database is unavailable, an error of PrismaService is transient and in one line', () => {
    test.each<[what: string, options: () => pg.PoolConfig, message: string | RegExp]>([
      [
        'nothing listens',
        () => ({ connectionString: REFUSED }),
        /^[^\n]*Can't reach database server at 127\.0\.0\.1:1[^\n]*$/,
      ],
      [
        'the pool has no free connection',
        () => ({ connectionString: database.url, max: 1, connectionTimeoutMillis: 200 }),
        'timeout exceeded when trying to connect',
      ],
      ['it does not respond', () => ({ connectionString: database.url, query_timeout: 100 }), 'Query read timeout'],
    ])('%s', async (_what, options, message) => {
      const prisma = serviceOn(options());
      const holder = options().max === 1 ? await main?.connect() : undefined;
      for (const statement of [
        () => prisma.$queryRaw`SELECT pg_sleep(5)::text`,
        () => prisma.$executeRaw`SELECT pg_sleep(5)`,
      ]) {
        const error = await failureOf(statement());
        expect([sqlStateOf(error), isTransientDatabaseError(error)]).toEqual([undefined, true]);
        expect(databaseMessageOf(error)).toMatch(message);
      }
      holder?.release();
    });
  });

  it('a query of a model works on open connections after a column has another type', async () => {
    const prisma = serviceOn({ connectionString: database.url, max: 1 });
    const find = (): Promise<unknown> => prisma.apiKeyUsage.findFirst({ select: { admitted: true } });
    expect(await find()).toBeNull();
    await database.db.query('ALTER TABLE api_key_usage ALTER COLUMN admitted TYPE numeric');
    expect(await find()).toBeNull();
  });
});

describe('petstore serve', () => {
  it('ends on SIGTERM while a database that accepts connections does not respond', async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => sockets.push(socket.on('error', () => undefined)));
    const port = await listen(server);
    const service = spawn(process.execPath, [CLI, 'serve'], {
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: `postgresql://app@127.0.0.1:${port}/x`,
        PORT: '0',
        METRICS_PORT: '0',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output = Promise.all([text(service.stdout), text(service.stderr)]);
    const exited = once(service, 'exit');
    await once(server, 'connection');
    service.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(await output).toEqual(['', '']);
    // The one of the check: nothing else has been tried.
    expect(sockets).toHaveLength(1);
    server.close();
  });
});
