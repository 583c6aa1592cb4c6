import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CommandResult, failure, petstore, petstoreProcess } from '../helpers/petstore.js';
import { openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { useTestDatabase } from '../helpers/test-database.js';

const folder = useTemporaryFolder('import');
const database = useTestDatabase();
beforeEach(() => database.db.query('TRUNCATE orders RESTART IDENTITY'));

/** Imports a file with this content. */
function importing(content: string, ...options: string[]): Promise<CommandResult> {
  const path = join(folder, 'orders.csv');
  writeFileSync(path, content);
  return petstore(['orders', 'import', path, ...options], { DATABASE_URL: database.url });
}

async function orderIds(): Promise<unknown[]> {
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  return rows.map(({ id }) => id);
}

const CSV = 'id,petId,quantity\n9007199254740993,7,1\n2,7,1\n';
const IDS = ['2', '9007199254740993'];

describe('petstore orders import', () => {
  it('prints the number of orders', async () => {
    expect(await importing(CSV)).toEqual({ exitCode: 0, stdout: '2 orders imported.\n', stderr: '' });
    expect(await orderIds()).toEqual(IDS);
  });

  it('prints every ten seconds how many orders it has read', async () => {
    // Only `setInterval` is faked.
    const others = ['setImmediate', 'clearImmediate', 'setTimeout', 'clearTimeout', 'queueMicrotask'] as const;
    jest.useFakeTimers({ doNotFake: ['Date', 'hrtime', 'nextTick', 'performance', ...others] });
    try {
      // The import waits for the transaction that inserts one of its ids.
      const end = await openTransaction(database.db, 'INSERT INTO orders (id, pet_id, quantity) VALUES (2, 8, 1)');
      const imported = importing(CSV);
      await untilLockWaits(database.db);
      jest.advanceTimersByTime(20_000);
      await end('ROLLBACK');
      expect(await imported).toEqual({
        exitCode: 0,
        stdout: '2 orders imported.\n',
        stderr: '2 orders\n2 orders\n',
      });
    } finally {
      jest.useRealTimers();
    }
  });

  it('reads stdin and prints one JSON document with --json', async () => {
    const result = await petstoreProcess(['orders', 'import', '-', '--json'], { DATABASE_URL: database.url }, CSV);
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    expect(JSON.parse(result.stdout)).toEqual({ orders: 2, dryRun: false });
    expect(await orderIds()).toEqual(IDS);
  });

  it('rejects a last row without a line end, unless --complete is given', async () => {
    const cut = CSV.slice(0, -1);
    const message =
      'Errors in the file; nothing was imported:\n' +
      '  - line 3 has no line end and may have been cut off; if the file is complete, pass --complete';
    expect(await importing(cut)).toEqual(failure(message));
    expect(await orderIds()).toEqual([]);
    expect(await importing(cut, '--complete')).toMatchObject({ exitCode: 0 });
    expect(await orderIds()).toEqual(IDS);
  });

  it('changes nothing with --dry-run, not even the next id', async () => {
    const stdout = '2 orders checked; nothing was imported.\n';
    expect(await importing('petId,quantity\n7,1\n8,1\n', '--dry-run')).toEqual({ exitCode: 0, stdout, stderr: '' });
    const { rows } = await database.db.query('INSERT INTO orders (pet_id, quantity) VALUES (1, 1) RETURNING id');
    expect(rows).toEqual([{ id: '1' }]);
    expect(await orderIds()).toEqual(['1']);
  });

  it('rejects a file without orders, unless --allow-empty is given', async () => {
    const message = 'The file has no orders. Check what wrote it, or pass --allow-empty.';
    expect(await importing('petId,quantity\n')).toEqual(failure(message));
    expect(await importing('petId,quantity\n', '--allow-empty')).toMatchObject({ stdout: '0 orders imported.\n' });
  });
});
