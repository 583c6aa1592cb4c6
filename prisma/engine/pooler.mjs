/** @import pg from 'pg' */

export const SHARED_SERVERS =
  'DATABASE_URL must point to PostgreSQL itself, or to a pooler that keeps a server connection for each client, like pool_mode = session ' +
  'of PgBouncer (got a pooler that does not)';

/**
 * Whether a URL leads to a pooler that gives its clients server connections for a transaction or a statement at a time, such as
 * `pool_mode = transaction` of PgBouncer: settings and locks would stay on a connection that others share.
 * @param {() => Promise<pg.Client>} connect
 * @returns {Promise<boolean>}
 */
export async function sharesServers(connect) {
  const client = await connect();
  /** @type {pg.Client | undefined} */
  let second;
  try {
    const process = await processOf(client);
    if (!hasPooler(client, process)) {
      return false;
    }
    // An idle pooler of this kind takes turns with its servers, or gives two clients the same one.
    if ((await processOf(client)) !== process) {
      return true;
    }
    second = await connect();
    return (await processOf(second)) === process;
  } finally {
    await Promise.all([client.end(), second?.end()]);
  }
}

/**
 * A pooler gives its clients process ids of its own.
 * @param {pg.Client} client
 * @param {number} process of PostgreSQL
 */
function hasPooler(client, process) {
  return /** @type {pg.Client & { processID: number }} */ (client).processID !== process;
}

/** @param {pg.Client} client @returns {Promise<number>} */
async function processOf(client) {
  const { rows } = await client.query('SELECT pg_backend_pid() AS process');
  return rows[0].process;
}
