import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { openPool } from '../helpers/open-pool.js';
import { prismaMigrate } from '../helpers/prisma-migrate.js';
import { startTestService } from '../helpers/test-service.js';

const LOCALES = {
  'the C collation': `LOCALE 'C'`,
  'an ICU collation': `LOCALE_PROVIDER icu ICU_LOCALE 'de-DE-u-kn-true' LOCALE 'C'`,
};

let folder: string;
let server: PostgresServer;
let superuser: pg.Client;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'petstore-names-'));
  server = await PostgresServer.start({ folder, settings: { fsync: 'off' } });
  superuser = new pg.Client(server.url('postgres'));
  await superuser.connect();
  await superuser.query(`CREATE ROLE "Shop Owner" LOGIN CREATEROLE PASSWORD 'a:b/c@d'`);
});
afterAll(async () => {
  await superuser.end();
  await server.stop();
  rmSync(folder, { recursive: true });
});

describe.each(Object.entries(LOCALES))('a database with its own name and owner and %s', (_name, locale) => {
  it('is migrated by its owner and serves cancels and lists to a restricted role', async () => {
    const name = `Pet Store ${locale.length}`;
    const [database, login] = [superuser.escapeIdentifier(name), `service_${locale.length}`];
    await superuser.query(
      `CREATE DATABASE ${database} OWNER "Shop Owner" ENCODING 'UTF8' TEMPLATE template0 ${locale}`,
    );
    await superuser.query(`ALTER DATABASE ${database} SET search_path = elsewhere, pg_catalog`);
    // The messages of the server are never interpreted, whatever their language is.
    await superuser.query(`ALTER DATABASE ${database} SET lc_messages = 'C'`);
    await prismaMigrate('deploy', urlOf('Shop Owner', 'a:b/c@d', name));
    const owner = openPool({
      connectionString: urlOf('Shop Owner', 'a:b/c@d', name),
      options: '-c search_path=public',
    });
    await superuser.query(`CREATE ROLE ${login} LOGIN PASSWORD 'secret' IN ROLE petstore_service`);
    const { key } = await insertKey(owner);
    const ids = ['9', '10', '-1', '9007199254740993'];
    for (const id of ids) {
      await insertOrder(owner, { id });
    }
    const environment = { DATABASE_URL: urlOf(login, 'secret', name) };
    const service = await startTestService({ environment, database: { url: '', db: owner, drop: () => owner.end() } });
    try {
      expect((await cancelOrder(service.baseUrl, '10', key)).status).toBe(204);
      expect((await errorOf(await cancelOrder(service.baseUrl, '10', key))).code).toBe('order_already_cancelled');
      expect(await statusOf(owner, '9')).toBe('pending');
      const list = await (await listOrders(service.baseUrl, key)).text();
      expect([...list.matchAll(/"id":(-?\d+)/g)].map(([, id]) => id)).toEqual(['-1', '9', '10', '9007199254740993']);
    } finally {
      await service.stop();
      await owner.end();
    }
  });
});

function urlOf(user: string, password: string, database: string): string {
  const url = new URL(server.url('postgres'));
  url.username = encodeURIComponent(user);
  url.password = encodeURIComponent(password);
  url.pathname = `/${encodeURIComponent(database)}`;
  return url.href;
}
