/** @import pg from 'pg' */

/**
 * Whether a URL leads to a pooler that gives its clients server connections for a transaction or a statement at a time, such as
 * `pool_mode = transaction` of PgBouncer: settings and locks would stay on a connection that others share.
 * @param {() => Promise<pg.Client>} connect opens a connection, which the caller closes
 * @returns {Promise<boolean>}
 */
export async function sharesServers(connect) {
  const client = await connect();
  const process = await processOf(client);
  if (!hasPooler(client, process)) {
    return false;
  }
  // An idle pooler of this kind gives both the same server process, or takes turns with them.
  const other = await processOf(await connect());
  return other === process || (await processOf(client)) !== process;
}

/**
 * A pooler gives its clients process ids of its own.
 * @param {pg.Client} client
 * @param {number} process of PostgreSQL
 */
export function hasPooler(client, process) {
  return /** @type {pg.Client & { processID: number }} */ (client).processID !== process;
}

/** @param {pg.Client} client @returns {Promise<number>} */
async function processOf(client) {
  const { rows } = await client.query('SELECT pg_backend_pid() AS process');
  return rows[0].process;
}
