import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { describeIf, describeWith } from '../helpers/describe-if.js';
import {
  createDeployment,
  documentedArchiveCommand,
  documentedCommands,
  runDocumented,
} from '../helpers/documented-backup.js';
import { freePort } from '../helpers/free-port.js';
import { applyMigrations } from '../helpers/own-postgres.js';
import { openPool } from '../helpers/open-pool.js';
import { otherPostgres } from '../helpers/other-postgres.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { LIST_AS_JSON } from '../models/list-writer.js';

/** Not newer than the pg_basebackup of Debian 12. */
const programs = otherPostgres(15);

const describeHere =
  programs === undefined
    ? describeIf(false, 'npm run test:matrix -- --only point-in-time')
    : describeWith('pg_basebackup', 'psql');

describeHere('the documented restore to a point in time', () => {
  const folder = useTemporaryFolder('point-in-time');
  const archive = join(folder, 'archive');
  let server: PostgresServer;
  let port: number;
  let db: pg.Pool;
  let service: TestService;
  /** The list as the service last sent it. */
  let known: { text: string; etag: string | null } = { text: '', etag: null };
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
    await db.query('INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(1, 40000, 7) AS n');
    ({ key } = await insertKey(db));
    service = await startTestService({ database: { url: urlOf('petstore_app'), db, drop: () => db.end() } });
    await list();
  });
  afterAll(async () => {
    await service.stop();
    await db.end();
    await server.stop();
  });

  it('brings back the list of that time, under no tag that named another one, while the service runs', async () => {
    const [, backup, restore, renew] = documentedCommands('Point in time').map((block) =>
      block.replaceAll('/backup', archive),
    );
    await runDocumented(backup, folder, port);
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
    const toThatTime = restore!.replace('2026-11-22 12:00:00+00', rows[0]!.time);
    await runDocumented(toThatTime, folder, port, { PGDATA: data });
    const [kept] = readdirSync(dirname(data)).filter((name) => /^data\.\d+$/.test(name));
    // In the container everything belongs to its user.
    execFileSync('chown', ['--recursive', `--reference=${join(dirname(data), kept!)}`, data, archive]);
    server = await start();
    await runDocumented(renew, folder, port);
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
