import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { describeIf, describeWith } from '../helpers/describe-if.js';
import { createDeployment, documentedCommands, runDocumented } from '../helpers/documented-backup.js';
import { applyMigrations } from '../helpers/own-postgres.js';
import { openPool } from '../helpers/open-pool.js';
import { otherPostgres } from '../helpers/other-postgres.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

// As documented, the server has the major version of these programs.
const [version = ''] = /\d+/.exec(String(spawnSync('pg_dump', ['--version']).stdout)) ?? [];
const programs = otherPostgres(Number(version));

const describeHere =
  programs === undefined && process.env.CI !== 'true'
    ? describeIf(false, `PostgreSQL ${version} (node .ci/install.mjs test/weekly/postgres-versions)`)
    : describeWith('pg_dump', 'psql');

describeHere('the documented backup', () => {
  const folder = useTemporaryFolder('backup');
  let server: PostgresServer;
  let port: number;
  let db: pg.Pool;
  let service: TestService | undefined;

  beforeAll(async () => {
    // PostgreSQL does not run as root.
    chmodSync(folder, 0o755);
    server = await PostgresServer.start({ folder, settings: { fsync: 'off' }, programs });
    port = Number(new URL(server.url('postgres')).port);
    await createDeployment(server.url('postgres'));
    db = openOwnersPool();
    await applyMigrations(db);
  });
  afterAll(async () => {
    await service?.stop();
    if (!db.ended) {
      await db.end();
    }
    await server.stop();
  });

  it('restores orders and keys while the service runs, and changes nothing when the dump was cut', async () => {
    await insertOrder(db, { id: '1' });
    const { id, key } = await insertKey(db);
    await runDocumented(documentedCommands('Dump')[0], folder, port);
    service = await startService();
    expect((await cancelOrder(service.baseUrl, '1', key)).status).toBe(204);
    await db.query('DELETE FROM api_keys WHERE id = $1', [id]);
    const { key: laterKey } = await insertKey(db);
    expect(await (await listOrders(service.baseUrl, laterKey)).json()).toHaveLength(1);
    const [dump, whole] = [join(folder, 'petstore.dump'), join(folder, 'whole.dump')];
    copyFileSync(dump, whole);
    truncateSync(dump, Math.floor(statSync(dump).size * 0.9));
    await expect(runDocumented(documentedCommands('Restore')[0], folder, port)).rejects.toThrow();
    expect(await statusOf(db, '1')).toBe('cancelled');
    expect((await listOrders(service.baseUrl, laterKey)).status).toBe(200);

    copyFileSync(whole, dump);
    await runDocumented(documentedCommands('Restore')[0], folder, port);
    const { baseUrl } = service;
    await waitFor(async () => (await listOrders(baseUrl, laterKey)).status === 401, 'the key is gone');
    await waitFor(async () => (await listOrders(baseUrl, key)).status === 200, 'the key is known again');
    expect(await statusOf(db, '1')).toBe('pending');
    await service.stop();
    service = undefined;
    await db.query('TRUNCATE orders');
  });

  it('restores orders, keys and usage into a new database, where the service lists and cancels', async () => {
    await insertOrder(db, { id: '9007199254740993', ship_date: null });
    await insertOrder(db, { id: '2', status: 'shipped', complete: true });
    await insertOrder(db, { id: '3', status: 'cancelled' });
    await db.query("SELECT setval('orders_id_seq', 70000)");
    const [{ key }, revoked] = [await insertKey(db), await insertKey(db, { revoked_at: new Date() })];
    service = await startService();
    const list = await (await listOrders(service.baseUrl, key)).text();
    await service.stop();
    service = undefined;
    const rows = await allRows();

    await runDocumented(documentedCommands('Dump')[0], folder, port);
    await db.end();
    const [create, migrate] = documentedCommands('Restore into a new database');
    await runDocumented(create, folder, port);
    await runDocumented(migrate, folder, port, { DATABASE_URL: urlOf('petstore_owner') });
    await runDocumented(documentedCommands('Restore')[0], folder, port);

    db = openOwnersPool();
    expect(await allRows()).toEqual(rows);
    service = await startService();
    expect(await (await listOrders(service.baseUrl, key)).text()).toBe(list);
    expect((await listOrders(service.baseUrl, revoked.key)).status).toBe(401);
    expect((await cancelOrder(service.baseUrl, '9007199254740993', key)).status).toBe(204);
    expect(await statusOf(db, '9007199254740993')).toBe('cancelled');
    expect((await cancelOrder(service.baseUrl, '2', key)).status).toBe(409);
    const { rows: inserted } = await db.query('INSERT INTO orders (pet_id, quantity) VALUES (1, 1) RETURNING id');
    expect(inserted).toEqual([{ id: '70001' }]);
  });

  const urlOf = (user: string): string => `postgresql://${user}:test@127.0.0.1:${port}/petstore`;

  const openOwnersPool = (): pg.Pool => openPool({ connectionString: urlOf('petstore_owner'), max: 3 });

  function startService(): Promise<TestService> {
    return startTestService({ database: { url: urlOf('petstore_app'), db, drop: () => db.end() } });
  }

  async function allRows(): Promise<unknown[]> {
    const tables = ['orders', 'api_keys', 'api_key_usage'];
    const results = await Promise.all(
      tables.map((table) => db.query(`SELECT to_json(${table})::text AS row FROM ${table} ORDER BY 1`)),
    );
    return results.map(({ rows }): unknown => rows);
  }
});
