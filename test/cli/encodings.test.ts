import { applyMigrations } from '../helpers/isolated-database.js';
import { openPool } from '../helpers/open-pool.js';
import { petstore } from '../helpers/petstore.js';
import { useTestDatabase } from '../helpers/test-database.js';

const database = useTestDatabase();

it.each([
  ['LATIN1', /^error: .* has no equivalent in encoding "LATIN1"\. Use a name that the encoding/],
  ['SQL_ASCII', /^error: .*"api_keys_name_printable"\. If .*: Use a name that the encoding/],
])('petstore keys issue says what to do when a database in %s cannot hold a name', async (encoding, message) => {
  const name = `${new URL(database.url).pathname.slice(1)}_${encoding.toLowerCase()}`;
  await database.db.query(`CREATE DATABASE ${name} ENCODING '${encoding}' TEMPLATE template0 LOCALE 'C'`);
  const url = Object.assign(new URL(database.url), { pathname: `/${name}` }).href;
  const db = openPool({ connectionString: url, max: 1 });
  try {
    await applyMigrations(db);
    const result = await petstore(['keys', 'issue', '--name', 'Łódź', '--plan', 'free'], { DATABASE_URL: url });
    expect(result).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(message) as unknown });
  } finally {
    await db.end();
    await database.db.query(`DROP DATABASE ${name}`);
  }
});
