import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { runChecks } from '../../src/cli/doctor/run-checks.js';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { documentedArchiveCommand } from '../helpers/archive-command.js';
import { insertKey } from '../helpers/builders.js';
import { describeIf } from '../helpers/describe-if.js';
import { describeWith } from '../helpers/describe-with.js';
import { createDeployment, documentedCommands, runDocumented } from '../helpers/documented-backup.js';
import { freePort } from '../helpers/free-port.js';
import { applyMigrations } from '../helpers/isolated-database.js';
import { openPool } from '../helpers/open-pool.js';
import { otherPostgres } from '../helpers/other-postgres.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { LIST_AS_JSON } from '../model/list-writer.js';

/** Not newer than the pg_dump of Debian 12. */
const programs = otherPostgres(15);
/** What a superuser and others may have in the same database, and a view that depends on the table. */
const OTHERS = `
  CREATE EXTENSION citext;
  CREATE PUBLICATION theirs FOR TABLE public.orders;
  CREATE SUBSCRIPTION theirs CONNECTION 'dbname=none' PUBLICATION none WITH (connect = false);
  CREATE VIEW public.their_orders AS SELECT id, quantity FROM public.orders;
  CREATE SCHEMA elsewhere;
  CREATE SEQUENCE elsewhere.orders_id_seq;
  CREATE TABLE elsewhere.orders (LIKE public.orders);
  CREATE TABLE elsewhere.api_keys (LIKE public.api_keys);
  CREATE TABLE elsewhere.api_key_usage (LIKE public.api_key_usage);
  INSERT INTO elsewhere.orders (id, pet_id, quantity, complete, status, created_at) VALUES (1, 1, 1, false, 'pending', now());`;
/** All of it in one text. */
const SELECT_OTHERS = `
  SELECT concat_ws(', ', (SELECT extowner::regrole FROM pg_extension WHERE extname = 'citext'),
    (SELECT tablename FROM pg_publication_tables WHERE pubname = 'theirs'), (SELECT subowner::regrole FROM pg_subscription),
    (SELECT viewowner FROM pg_views WHERE viewname = 'their_orders'), (SELECT count(*) FROM elsewhere.orders),
    (SELECT count(*) FROM elsewhere.api_keys), (SELECT count(*) FROM elsewhere.api_key_usage), (SELECT last_value FROM elsewhere.orders_id_seq)
  ) AS others`;
const INSUFFICIENT_PRIVILEGE = '42501';
const ORDERS = 'INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(1, 40000, 7) AS n';

const describeHere =
  programs === undefined
    ? describeIf(false, 'npm run test:matrix -- --only backup-restore')
    : describeWith('pg_dump', 'pg_basebackup', 'psql');

describeHere('backup and restore', () => {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-backup-'));
  const archive = join(folder, 'archive');
  let server: PostgresServer;
  let port: number;
  let db: pg.Pool;
  let service: TestService;
  /** The list as the service last sent it. */
  let known: { text: string; etag: string | null };
  let key: string;

  beforeAll(async () => {
    chmodSync(folder, 0o755);
    mkdirSync(archive);
    chmodSync(archive, 0o777);
    port = await freePort();
    server = await start();
    await createDeployment(server.url('postgres'));
    await asSuperuser("CREATE ROLE stranger LOGIN PASSWORD 'test'", 'postgres');
    db = openPool({ connectionString: urlOf('petstore_owner'), max: 3 });
    await applyMigrations(db);
    await asSuperuser(OTHERS);
  });
  afterAll(async () => {
    await db.end();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    await db.query(`TRUNCATE orders; ${ORDERS}`);
    ({ key } = await insertKey(db));
    service = await startTestService({ database: { url: urlOf('petstore_app'), db, drop: () => db.end() } });
    known = { text: '', etag: null };
    await list();
  });
  afterEach(() => service.stop());

  const DUMPS: readonly [dump: string, command: () => string][] = [
    ['the dump', () => documented('Dump')[0]!],
    ['the dump of a managed database', () => managed(documented('Dump')[0]!)],
    ['a dump of the whole database', () => 'pg_dump --username postgres --format custom petstore > petstore.dump'],
  ];

  it.each(DUMPS)('%s restores the rows of the service, beside those of others, and again', async (_what, dump) => {
    const [restore = ''] = documented('Restore');
    const saved = await table();
    const { id, key: savedKey } = await insertKey(db);
    await db.query("SELECT setval('orders_id_seq', 70000)");
    await run(dump());
    await db.query('DELETE FROM api_keys WHERE id = $1', [id]);
    await changeOrders();
    // It has never seen the key that only the backup has.
    const another = await startTestService({ database: { url: urlOf('petstore_app'), db, drop: () => db.end() } });
    await db.query("SELECT setval('orders_id_seq', 1)");
    const before = await others();
    const { key: laterKey } = await insertKey(db);
    expect((await listOrders(service.baseUrl, laterKey)).status).toBe(200);
    for (const command of [restore, managed(restore)]) {
      await run(command);
      await waitFor(async () => (await listOrders(service.baseUrl, laterKey)).status === 401, 'the key is gone');
      expect(await table()).toBe(saved);
      expect(await others()).toBe(before);
      expect((await db.query('SELECT last_value FROM orders_id_seq')).rows).toEqual([{ last_value: '70000' }]);
      await expectService();
    }
    await waitFor(async () => (await listOrders(another.baseUrl, savedKey)).status === 200, 'the key is known again');
    await another.stop();
  });

  it('a dump that is missing, was cut or is another one changes nothing', async () => {
    const [restore] = documented('Restore');
    const dump = join(folder, 'petstore.dump');
    await run(documented('Dump')[0]);
    await changeOrders();
    const present = await table();
    const replacements: (() => unknown)[] = [
      () => {
        truncateSync(dump, Math.floor(statSync(dump).size * 0.9));
      },
      () => {
        rmSync(dump);
      },
      () => run('pg_dump --username postgres --format custom --schema-only petstore > petstore.dump'),
      () => run('pg_dump --username postgres --format custom postgres > petstore.dump'),
    ];
    for (const replace of replacements) {
      await replace();
      await expect(run(restore)).rejects.toThrow();
      expect(await table()).toBe(present);
    }
    await expectService();
  });

  it('the restore fails and changes nothing while a table of others refers to the keys, also with ON DELETE CASCADE', async () => {
    const [restore] = documented('Restore');
    await run(documented('Dump')[0]);
    await changeOrders();
    const present = await table();
    await asSuperuser(`
      CREATE TABLE elsewhere.partners (key_id uuid REFERENCES public.api_keys ON DELETE CASCADE);
      INSERT INTO elsewhere.partners SELECT id FROM public.api_keys`);
    const before = await asSuperuser('SELECT key_id FROM elsewhere.partners ORDER BY key_id');
    await expect(run(restore)).rejects.toThrow('cannot truncate a table referenced in a foreign key constraint');
    expect(await table()).toBe(present);
    expect(await asSuperuser('SELECT key_id FROM elsewhere.partners ORDER BY key_id')).toEqual(before);
    await asSuperuser('DROP TABLE elsewhere.partners');
    await expectService();
  });

  it('the list is read whole after a restore with disabled triggers, until they are enabled as before', async () => {
    const [restore, repair] = documented('Restore');
    await run(documented('Dump')[0]);
    await changeOrders();
    await run(restore!.replace('--data-only', '--data-only --disable-triggers'));
    expect(await list()).toEqual({ text: await table(), etag: null });
    await run(repair);
    await expectService();
  });

  it('a base backup and the log restore the list to a point in time, and then to a later one', async () => {
    const [, backup, restore, renew] = documented('Point in time');
    await run(backup);
    await archived();
    const archivedBefore = readdirSync(archive);
    const moments: { readonly time: string; readonly orders: string }[] = [];
    for (let moment = 0; moment < 2; moment++) {
      await changeOrders();
      const { rows } = await db.query<{ time: string }>('SELECT clock_timestamp()::text AS time');
      moments.push({ time: rows[0]!.time, orders: await table() });
    }
    await changeOrders();
    const data = join(folder, 'server', 'cluster', 'data');
    await server.stop();
    // As after a crash, the end of the log, which the server still has, is not archived.
    const end = readdirSync(join(data, 'pg_wal')).filter((name) => !archivedBefore.includes(name));
    for (const file of end) {
      rmSync(join(archive, file), { force: true });
    }
    for (const { time, orders } of moments) {
      await server.stop();
      await run(restore!.replace('2026-11-22 12:00:00+00', time), { PGDATA: data });
      const [kept] = readdirSync(dirname(data)).filter((name) => /^data\.\d+$/.test(name));
      // In the container everything belongs to its user.
      execFileSync('chown', ['--recursive', `--reference=${join(dirname(data), kept!)}`, data, archive]);
      server = await start();
      await run(renew);
      expect(await table()).toBe(orders);
      await expectService();
    }
  });

  it('a new database takes the place of the old one, with its rights, and the old one stays', async () => {
    const [create, migrate] = documented('Restore into a new database');
    const saved = await table();
    await run(documented('Dump')[0]);
    const before = await others();
    await expect(connectAs('stranger')).resolves.toBeUndefined();
    await service.stop();
    await db.end();
    await run(create);
    await run(migrate, { DATABASE_URL: urlOf('petstore_owner') });
    await run(documented('Restore')[0]);
    db = openPool({ connectionString: urlOf('petstore_owner'), max: 3 });
    service = await startTestService({ database: { url: urlOf('petstore_app'), db, drop: () => db.end() } });
    expect(await table()).toBe(saved);
    await expectService();
    await expect(connectAs('stranger')).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
    const { access, role, schema } = await runChecks({
      DATABASE_URL: urlOf('petstore_app'),
      PORT: '0',
      METRICS_PORT: '0',
    });
    expect([access, role, schema].map((result) => result?.status)).toEqual(['ok', 'ok', 'ok']);
    expect(await others('petstore_old')).toBe(before);
  });

  function start(): Promise<PostgresServer> {
    return PostgresServer.start({
      folder: join(folder, 'server'),
      settings: { fsync: 'off', archive_mode: 'on', archive_command: documentedArchiveCommand(archive) },
      port,
      programs,
    });
  }

  function urlOf(user: string, database = 'petstore'): string {
    return `postgresql://${user}:test@127.0.0.1:${port}/${database}`;
  }

  /** The commands of a section of docs/operations.md, for the archive of this test. */
  function documented(section: string): string[] {
    return documentedCommands(section).map((block) => block.replaceAll('/backup', archive));
  }

  /** As the page says for a managed database; its owner is no superuser. */
  function managed(commands: string): string {
    return commands.replaceAll('docker compose exec -T postgres ', '');
  }

  async function asSuperuser<T extends pg.QueryResultRow>(sql: string, database = 'petstore'): Promise<T[]> {
    const superuser = openPool({ connectionString: urlOf('postgres', database), max: 1 });
    try {
      return (await superuser.query<T>(sql)).rows;
    } finally {
      await superuser.end();
    }
  }

  async function others(database?: string): Promise<string> {
    return (await asSuperuser<{ others: string }>(SELECT_OTHERS, database))[0]!.others;
  }

  async function connectAs(user: string): Promise<void> {
    const client = new pg.Client(urlOf(user));
    await client.connect();
    await client.end();
  }

  function run(commands: string | undefined, environment: Readonly<Record<string, string>> = {}): Promise<void> {
    return runDocumented(commands, folder, port, environment);
  }

  async function table(): Promise<string> {
    const { rows } = await db.query<{ text: string }>(LIST_AS_JSON);
    return `[${rows[0]!.text}]`;
  }

  /** Lists as a client that has the last list: a tag that named two contents would show the old one. */
  async function list(): Promise<typeof known> {
    const headers: Record<string, string> = known.etag === null ? {} : { 'If-None-Match': known.etag };
    const response = await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'gzip', ...headers });
    const body = await response.text();
    expect([200, 304]).toContain(response.status);
    known = { text: response.status === 304 ? known.text : body, etag: response.headers.get('etag') };
    return known;
  }

  async function change(statements: string): Promise<void> {
    await db.query(statements);
    expect((await list()).text).toBe(await table());
  }

  function changeOrders(): Promise<void> {
    return change(`
      UPDATE orders SET quantity = quantity + 1 WHERE id % 3 = 0; DELETE FROM orders WHERE id BETWEEN 20000 AND 30000;
      INSERT INTO orders (id, pet_id, quantity) SELECT max(id) + 20000, 1, 1 FROM orders`);
  }

  /** Checks that the service, which was not restarted, lists what is in the table, with an ETag, and cancels. */
  async function expectService(): Promise<void> {
    expect((await list()).text).toBe(await table());
    await change('UPDATE orders SET pet_id = 5 WHERE id = 1');
    await change('UPDATE orders SET pet_id = 6 WHERE id > 39000');
    expect((await list()).etag).not.toBeNull();
    expect((await cancelOrder(service.baseUrl, '8', key)).status).toBe(204);
  }

  /** Waits until everything that is committed is in the archive. */
  async function archived(): Promise<void> {
    const superuser = openPool({ connectionString: urlOf('postgres'), max: 1 });
    const { rows } = await superuser.query<{ file: string }>('SELECT pg_walfile_name(pg_switch_wal()) AS file');
    await waitFor(
      async () => {
        const { rowCount } = await superuser.query('SELECT FROM pg_stat_archiver WHERE last_archived_wal >= $1', [
          rows[0]!.file,
        ]);
        return rowCount === 1;
      },
      'the log is archived',
      { withinMs: 60_000 },
    );
    await superuser.end();
  }
});
