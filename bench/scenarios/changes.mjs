import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '../clients/client.mjs';
import { Server } from '../servers/server.mjs';
import { listAs } from './requests.mjs';

/** The lower bound: PostgreSQL's own client, discarding the same rows. */
const PSQL = { name: 'psql COPY' };
const COPY = 'COPY (SELECT id, pet_id, quantity, ship_date, complete FROM orders ORDER BY id) TO STDOUT';

/** What happens to the table right before a list. */
const CHANGES = {
  nothing: () => undefined,
  insert: (client) => client.query('INSERT INTO orders (pet_id, quantity) VALUES (1, 1)'),
  everything: renewAllBlocks,
};
/** So that a list and its client do not compete with the end of the one before. */
const PAUSE_MS = 100;

/** Large lists after each kind of change; the first contestant of each line is psql. */
export async function changes({ bench, contestants, orders, compare }) {
  const database = await bench.forLists(orders);
  const client = new Client();
  try {
    await Server.withAll(contestants, bench, database, async (servers) => {
      const read = async (contestant, encoding) => {
        const spec = { kind: 'list', request: listAs(bench.keys.unlimited, encoding) };
        const { wallMs, cpuMicros } = await client.run(servers.get(contestant), spec, [200]);
        return { wallMs, cpuMs: cpuMicros / 1_000 };
      };
      for (const encoding of ['gzip', 'identity']) {
        for (const [change, happen] of Object.entries(CHANGES)) {
          // The others read all of it each time.
          const taking = contestants.filter(
            ({ isOwn, compresses }) => isOwn || (change === 'nothing' && (encoding === 'identity' || compresses)),
          );
          const label = `list of ${orders}, ${encoding}, changed: ${change}`;
          await compare(label, [PSQL, ...taking], async (contestant) => {
            if (contestant === PSQL) {
              return timeOfCopy(database.url);
            }
            if (contestant.isOwn) {
              // Fills the memory.
              await read(contestant, 'gzip');
            }
            await happen(database.client);
            await delay(PAUSE_MS);
            return read(contestant, encoding);
          });
        }
      }
    });
  } finally {
    client.stop();
  }
}

/** Gives every block a new version, so that all are read again. */
export function renewAllBlocks(client) {
  return client.query(
    `INSERT INTO order_list_changes (block, token)
     SELECT block, (random() * 9e18)::bigint FROM (SELECT DISTINCT id >> 14 AS block FROM orders) AS blocks`,
  );
}

/** Of `psql -c "COPY …" -o /dev/null`, its start and its connection included. */
async function timeOfCopy(databaseUrl) {
  const startedAt = performance.now();
  const child = spawn('psql', ['--no-psqlrc', '-c', COPY, '-o', '/dev/null', databaseUrl], { stdio: 'inherit' });
  const [code] = await once(child, 'exit');
  if (code !== 0) {
    throw new Error(`psql exited with code ${code}.`);
  }
  return { wallMs: performance.now() - startedAt };
}
