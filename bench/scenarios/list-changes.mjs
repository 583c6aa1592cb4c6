import { Client } from '../clients/client.mjs';
import {
  FASTIFY_COMPRESS,
  FASTIFY_STREAM_TEXT,
  OWN,
  startContestant,
  withContestants,
} from '../contestants/contestants.mjs';
import { InvalidRun } from '../measure/load.mjs';
import { cpuSecondsOf, memoryOf, resetPeak } from '../measure/proc.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { PSQL } from './list.mjs';
import { psqlVersion, timeOfCopy } from './psql.mjs';
import { cancels, etagOf } from './requests.mjs';

/** The server that each kind of list is compared with. */
export const PEERS = { gzip: FASTIFY_COMPRESS, plain: FASTIFY_STREAM_TEXT };
export const ENCODINGS = Object.keys(PEERS);
/** What happens to the table right before a list. */
export const CHANGES = {
  nothing: () => undefined,
  insert: (client) => client.query('INSERT INTO orders (pet_id, quantity) VALUES (1, 1)'),
  update: (client) =>
    client.query('UPDATE orders SET quantity = quantity + 1 WHERE id = (SELECT max(id) / 2 FROM orders)'),
  cancel: (client) =>
    client.query(
      `UPDATE orders SET status = 'cancelled', cancelled_at = now()
       WHERE id = (SELECT id FROM orders WHERE status = 'pending' ORDER BY id LIMIT 1)`,
    ),
  /** Gives every block a new version, so that all are read again. */
  everything: (client) =>
    client.query(
      `INSERT INTO order_list_changes (block, token)
       SELECT block, (random() * 9e18)::bigint FROM (SELECT DISTINCT id >> 14 AS block FROM orders) AS blocks`,
    ),
};
export const CANCELS_PER_SECOND = 5_000;
const LISTS_DURING_CANCELS = 10;
const SETTLE_MS = 1_000;
/** So that a list and its client do not compete with the end of the one before. */
const PAUSE_MS = 100;

/** Lists of the large table, compressed and not, after each kind of change. */
export async function measureListChanges(bench, options, results) {
  const client = new Client('list');
  try {
    const database = await bench.databases.forLists(options.orders);
    await measureChanges(bench, { options, results, client, database });
    await measureMemory(bench, { options, results, client, database });
    await measureDuringCancels(bench, { options, results, client });
  } finally {
    await client.stop();
  }
}

async function measureChanges(bench, { options, results, client, database }) {
  const servers = [OWN, ...Object.values(PEERS)];
  await withContestants(
    bench,
    servers.map((contestant) => [contestant, database]),
    async (running) => {
      const run = async (name, contestant, kind) => {
        const server = running.get(contestant);
        try {
          const { wallMs, cpuMs } = await readList(client, server, bench, { kind, bytes: await database.listBytes() });
          results.record(`${name}/wallMs`, contestant, wallMs);
          results.record(`${name}/serverCpuMs`, contestant, cpuMs);
        } catch (error) {
          results.fail(`${name}/wallMs`, contestant, error.message);
          results.fail(`${name}/serverCpuMs`, contestant, error.message);
        }
      };
      // The first lists of a process compile the code for the later ones.
      for (const [contestant, kind] of [
        [OWN, 'gzip'],
        [OWN, 'plain'],
        ...ENCODINGS.map((kind) => [PEERS[kind], kind]),
      ]) {
        await readList(client, running.get(contestant), bench, { kind }).catch(() => undefined);
      }
      const visits = [
        ...(psqlVersion() === undefined ? [] : [{ psql: true }]),
        ...ENCODINGS.flatMap((kind) => [
          { kind, contestant: PEERS[kind] },
          ...Object.keys(CHANGES).map((change) => ({ kind, contestant: OWN, change })),
        ]),
      ];
      await interleave(visits, options.rounds, async ({ psql, kind, contestant, change }) => {
        if (psql) {
          results.record('changes/copy/wallMs', PSQL, await timeOfCopy(database.url));
          return;
        }
        progress(`list: ${kind}, ${contestant.name}, changed: ${change ?? '(not cached)'}`);
        if (change !== undefined) {
          // The list before the change fills the cache.
          await readList(client, running.get(OWN), bench, { kind: 'gzip' }).catch(() => undefined);
          await CHANGES[change](database.client);
        }
        await run(change === undefined ? `changes/${kind}` : `changes/${kind}/${change}`, contestant, kind);
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      });
    },
  );
}

/** Of a new process: its first list, which fills the cache, and some more. */
async function measureMemory(bench, { options, results, client, database }) {
  progress(`list: memory of the cache at ${options.orders} orders`);
  const server = await startContestant(OWN, bench, database);
  try {
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    resetPeak(server.pid);
    const idle = memoryOf(server.pid).resident;
    for (const kind of ['gzip', 'plain', 'gzip', 'gzip']) {
      await readList(client, server, bench, { kind });
    }
    results.record('changes/peakOverIdleBytes', OWN, memoryOf(server.pid).peak - idle);
  } catch (error) {
    results.fail('changes/peakOverIdleBytes', OWN, error.message);
  } finally {
    await server.stop();
  }
}

/** An unchanged list and polls, without and with cancels at a fixed rate. */
async function measureDuringCancels(bench, { options, results, client }) {
  progress(`list: during ${CANCELS_PER_SECOND} cancels/s`);
  const database = await bench.databases.forCancels(options.orders);
  const load = new Client('load');
  try {
    await withContestants(bench, [[OWN, database]], async (running) => {
      const server = running.get(OWN);
      const bytes = await database.listBytes();
      await readList(client, server, bench, { kind: 'gzip' });
      const etag = await etagOf(server, bench.keys.unlimited);
      const listsAndPolls = async (name) => {
        for (let count = 0; count < LISTS_DURING_CANCELS; count++) {
          const { wallMs } = await readList(client, server, bench, { kind: 'gzip', bytes });
          results.record(name, OWN, wallMs);
          if ((await etagOf(server, bench.keys.unlimited)) !== etag) {
            throw new InvalidRun('a cancel changed the entity tag');
          }
        }
      };
      for (let round = 0; round < options.rounds; round++) {
        await listsAndPolls('changes/calm/wallMs');
        const cancelling = load.run({
          port: server.port,
          connections: 64,
          request: cancels(bench.keys.unlimited, options.orders),
          perSecond: CANCELS_PER_SECOND,
          warmupSeconds: 0.5,
          seconds: options.seconds,
        });
        cancelling.catch(() => undefined);
        await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
        await listsAndPolls('changes/cancelling/wallMs');
        results.record('changes/cancelling/perSecond', OWN, (await cancelling).perSecond);
        await database.resetCancelled();
      }
    });
  } catch (error) {
    results.fail('changes/cancelling/wallMs', OWN, error.message);
  } finally {
    await load.stop();
  }
}

/** @throws {Error} unless the decompressed list has exactly the expected number of bytes */
export async function readList(client, server, bench, { kind, bytes }) {
  const cpuBefore = cpuSecondsOf(server.pid);
  const result = await client.run({ kind, port: server.port, key: bench.keys.unlimited, readers: 1 });
  if (bytes !== undefined && result.bodyBytes[0] !== bytes) {
    throw new InvalidRun(`received a list of ${result.bodyBytes[0]} bytes instead of ${bytes}`);
  }
  return { wallMs: result.wallMs, cpuMs: (cpuSecondsOf(server.pid) - cpuBefore) * 1_000 };
}
