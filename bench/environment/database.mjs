import pg from 'pg';

/** The whole list, as JSON without white space. */
const LIST_TEXT = `
  SELECT concat('[', string_agg(concat(
    '{"id":', id, ',"petId":', pet_id, ',"quantity":', quantity,
    CASE WHEN ship_date IS NOT NULL
         THEN concat(',"shipDate":"', to_char(ship_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '"') END,
    ',"complete":', CASE WHEN complete THEN 'true' ELSE 'false' END, '}'), ',' ORDER BY id), ']') AS text
  FROM orders`;

export class Database {
  /** @param {string} definition the name, and what else `CREATE DATABASE` takes */
  static async create(server, definition) {
    const [name] = definition.split(' ');
    const admin = await connect(server.url('postgres'));
    await admin.query(`CREATE DATABASE ${definition}`);
    await admin.end();
    return new Database(server.url(name), await connect(server.url(name)));
  }

  constructor(url, client) {
    this.url = url;
    this.client = client;
  }

  /** Makes cancelled orders pending again and removes the dead rows of both changes. */
  async resetCancelled() {
    await this.client.query("UPDATE orders SET status = 'pending', cancelled_at = NULL WHERE status = 'cancelled'");
    await this.client.query('VACUUM orders');
  }

  /** The whole list as JSON text, built by PostgreSQL. */
  async listText() {
    const { rows } = await this.client.query(LIST_TEXT);
    return rows[0].text;
  }
}

async function connect(url) {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  return client;
}
