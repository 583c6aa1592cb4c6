import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTestDatabase } from '../helpers/test-database.js';

const PAGE = readFileSync(join(__dirname, '..', '..', 'docs', 'operations.md'), 'utf8');

const database = useTestDatabase();

describe('the queries of docs/operations.md', () => {
  it('name the session and the prepared transaction that keep an old snapshot', async () => {
    const [, sql = ''] = /an old snapshot keeps.*?```sql\n(.*?)```/s.exec(PAGE) ?? [];
    const [session, other] = [await database.db.connect(), await database.db.connect()];
    await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM orders');
    const { rows: processes } = await session.query('SELECT pg_backend_pid() AS pid');
    await other.query("BEGIN; SELECT FROM orders; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'left'");
    other.release();
    const results = (await database.db.query(sql)) as unknown as { rows: object[] }[];
    await session.query('COMMIT');
    session.release();
    await database.db.query("ROLLBACK PREPARED 'left'");
    expect(results.map(({ rows }) => rows[0])).toEqual([
      expect.objectContaining(processes[0] as object),
      expect.objectContaining({ gid: 'left' }),
      undefined,
    ]);
  });
});
