import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CommandResult, failure, petstore, petstoreProcess } from '../../helpers/petstore.js';
import { useTemporaryFolder } from '../../helpers/temporary-folder.js';
import { useTestDatabase } from '../../helpers/test-database.js';

const folder = useTemporaryFolder('import');
const database = useTestDatabase();
beforeEach(() => database.db.query('TRUNCATE orders'));

function importing(...args: string[]): Promise<CommandResult> {
  return petstore(['orders', 'import', ...args], { DATABASE_URL: database.url });
}

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function orderIds(): Promise<unknown[]> {
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  return rows.map(({ id }) => id);
}

const CSV = 'id,petId,quantity\n9007199254740993,7,1\n2,7,1\n';
const IDS = ['2', '9007199254740993'];

describe('petstore orders import', () => {
  it('prints the number of orders', async () => {
    const result = await importing(file('orders.csv', CSV));
    expect(result).toEqual({ exitCode: 0, stdout: '2 orders imported.\n', stderr: '' });
    expect(await orderIds()).toEqual(IDS);
  });

  it('reads stdin and prints one JSON document with --json', async () => {
    const args = ['orders', 'import', '-', '--json'];
    const result = await petstoreProcess(args, { DATABASE_URL: database.url }, CSV);
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    expect(JSON.parse(result.stdout)).toEqual({ orders: 2, dryRun: false });
    expect(await orderIds()).toEqual(IDS);
  });

  it('rejects a last row without a line end, from stdin and from a file, unless --complete is given', async () => {
    const cut = CSV.slice(0, -1);
    const message =
      'Errors in the file; nothing was imported:\n' +
      '  - line 3 has no line end and may have been cut off; if the file is complete, pass --complete';
    const environment = { DATABASE_URL: database.url };
    expect(await petstoreProcess(['orders', 'import', '-'], environment, cut)).toEqual(failure(message));
    expect(await importing(file('cut.csv', cut))).toEqual(failure(message));
    expect(await orderIds()).toEqual([]);
    expect(await petstoreProcess(['orders', 'import', '-', '--complete'], environment, cut)).toMatchObject({
      exitCode: 0,
    });
    expect(await orderIds()).toEqual(IDS);
  });

  it('changes nothing with --dry-run', async () => {
    const result = await importing(file('dry.csv', CSV), '--dry-run');
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    expect(result.stdout).toBe('2 orders checked; nothing was imported.\n');
    expect(await orderIds()).toEqual([]);
  });

  it.each(['', 'petId,quantity\n'])('rejects a file without orders unless that is allowed: %j', async (content) => {
    const path = file('empty.csv', content);
    const message = 'The file has no orders. Check what wrote it, or pass --allow-empty.';
    expect(await importing('-')).toEqual(failure(message));
    expect(await importing(path)).toEqual(failure(message));
    expect(await importing(path, '--dry-run')).toEqual(failure(message));
    expect(await importing(path, '--allow-empty')).toMatchObject({ stdout: '0 orders imported.\n' });
  });

  it('rejects a file with errors as a whole, lists them on stderr and exits with 1', async () => {
    const path = file('errors.csv', 'petId,quantity\n7,1\n7,0\n7,\n7,"1\n');
    expect(await importing(path, '--json')).toEqual(
      failure(
        'Errors in the file; nothing was imported:\n' +
          '  - line 3, quantity must be an integer from 1 to 2147483647 (got 0)\n' +
          '  - line 4, quantity is empty; it must be an integer from 1 to 2147483647\n' +
          '  - line 5 is not valid CSV; perhaps a quote that opens in it is not closed (Quote Not Closed: the parsing is finished with an opening quote)',
      ),
    );
    expect(await orderIds()).toEqual([]);
  });

  it.each([
    ['that does not exist', join(folder, 'nothing.csv'), 'ENOENT'],
    ['that is a directory', folder, 'EISDIR'],
    ['whose name would change the terminal', 'evil\u001b[2J\nFAKE \u202e', 'ENOENT'],
  ])('exits with 1 for a file %s', async (_what, path, reason) => {
    const shown = (text: string): string => JSON.stringify(text).replace('\u202e', '\\u202e');
    const message = `Cannot read the file ${shown(path)} (${reason}); check the path and its permissions.`;
    expect(await importing(path)).toEqual(failure(message));
  });
});
