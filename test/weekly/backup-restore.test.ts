import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type pg from 'pg';
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
import { LIST_AS_JSON } from '../models/list-writer.js';

/** Not newer than the pg_dump of Debian 12. */
const programs = otherPostgres(15);
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
    db = openPool({ connectionString: urlOf('petstore_owner'), max: 3 });
    await applyMigrations(db);
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

  it('the dump restores rows, keys and the sequence, while the service runs', async () => {
    const saved = await table();
    const { id, key: savedKey } = await insertKey(db);
    await db.query("SELECT setval('orders_id_seq', 70000)");
    await run(documented('Dump')[0]);
    await db.query('DELETE FROM api_keys WHERE id = $1', [id]);
    await changeOrders();
    await db.query("SELECT setval('orders_id_seq', 1)");
    const { key: laterKey } = await insertKey(db);
    expect((await listOrders(service.baseUrl, laterKey)).status).toBe(200);
    await run(documented('Restore')[0]);
    await waitFor(async () => (await listOrders(service.baseUrl, laterKey)).status === 401, 'the key is gone');
    await waitFor(async () => (await listOrders(service.baseUrl, savedKey)).status === 200, 'the key is known again');
    expect(await table()).toBe(saved);
    expect((await db.query('SELECT last_value FROM orders_id_seq')).rows).toEqual([{ last_value: '70000' }]);
    await expectService();
  });

  it('the dump was cut: the restore changes nothing', async () => {
    const dump = join(folder, 'petstore.dump');
    await run(documented('Dump')[0]);
    await changeOrders();
    const present = await table();
    truncateSync(dump, Math.floor(statSync(dump).size * 0.9));
    await expect(run(documented('Restore')[0])).rejects.toThrow();
    expect(await table()).toBe(present);
    await expectService();
  });

  it('a base backup and the log: the list at a point in time is restored', async () => {
    const [, backup, restore, renew] = documented('Point in time');
    await run(backup);
    await archived();
    const archivedBefore = readdirSync(archive);
    await changeOrders();
    const { rows } = await db.query<{ time: string }>('SELECT clock_timestamp()::text AS time');
    const orders = await table();
    await changeOrders();
    const data = join(folder, 'server', 'cluster', 'data');
    await server.stop();
    // As after a crash, the end of the log, which the server still has, is not archived.
    const end = readdirSync(join(data, 'pg_wal')).filter((name) => !archivedBefore.includes(name));
    for (const file of end) {
      rmSync(join(archive, file), { force: true });
    }
    await run(restore!.replace('2026-11-22 12:00:00+00', rows[0]!.time), { PGDATA: data });
    const [kept] = readdirSync(dirname(data)).filter((name) => /^data\.\d+$/.test(name));
    // In the container everything belongs to its user.
    execFileSync('chown', ['--recursive', `--reference=${join(dirname(data), kept!)}`, data, archive]);
    server = await start();
    await run(renew);
    expect(await table()).toBe(orders);
    await expectService();
  });

  function start(): Promise<PostgresServer> {
    return PostgresServer.start({
      folder: join(folder, 'server'),
      settings: { fsync: 'off', archive_mode: 'on', archive_command: documentedArchiveCommand(archive) },
      port,
      programs,
    });
  }

  function urlOf(user: string): string {
    return `postgresql://${user}:test@127.0.0.1:${port}/petstore`;
  }

  /** The commands of a section of docs/operations.md, for the archive of this test. */
  function documented(section: string): string[] {
    return documentedCommands(section).map((block) => block.replaceAll('/backup', archive));
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
