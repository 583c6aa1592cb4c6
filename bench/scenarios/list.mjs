import { Client } from '../clients/client.mjs';
import {
  available,
  FASTIFY_JSON,
  FASTIFY_STREAM,
  FASTIFY_STREAM_TEXT,
  GO_PGX,
  NEST_PG,
  NEST_PRISMA,
  OWN,
  startContestant,
  withContestants,
} from '../contestants/contestants.mjs';
import { memoryOf, resetPeak } from '../measure/proc.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { median } from '../measure/statistics.mjs';
import { psqlVersion, timeOfCopy, timeOfNothing } from './psql.mjs';

const CONTESTANTS = [OWN, FASTIFY_STREAM, FASTIFY_STREAM_TEXT, FASTIFY_JSON, NEST_PRISMA, NEST_PG, GO_PGX];
/** The lower bound: PostgreSQL's own client, discarding the same rows. */
export const PSQL = { name: 'psql COPY' };
export const PSQL_ALONE = { name: 'psql, connecting only' };

/** Small lists take less time than the first few calls of code that is not compiled yet, so a round reads many of them. */
const SMALL_LIST_ORDERS = 1_000;
const SMALL_LISTS = { warmUp: 300, perRound: 100 };
const LARGE_LISTS = { warmUp: 1, perRound: 1 };
export const MANY_READERS = 8;
export const MANY_READERS_ORDERS = 100_000;
/** More rounds do not change the memory results. */
const MEMORY_ROUNDS_MAX = 3;
/** Time for a process to settle after its first response. */
const SETTLE_MS = 1_000;
const PAUSE_MS = 100;

/** The measured numbers of orders, up to the large table. */
export function listSizes({ orders }) {
  return [...[1, 1_000, 100_000].filter((size) => size < orders), orders];
}

export async function measureLists(bench, options, results) {
  const client = new Client('list');
  try {
    for (const size of listSizes(options)) {
      const database = await bench.databases.forLists(size);
      const bytes = await database.listBytes();
      await measureWall(bench, { options, results, client, database, size, bytes });
    }
    await measureMemory(bench, { options, results, client });
  } finally {
    await client.stop();
  }
}

async function measureWall(bench, { options, results, client, database, size, bytes }) {
  const contestants = available(bench, CONTESTANTS);
  progress(`list: ${size} orders`);
  const lists = size <= SMALL_LIST_ORDERS ? SMALL_LISTS : LARGE_LISTS;
  const readers = size === Math.min(MANY_READERS_ORDERS, options.orders) ? [1, MANY_READERS] : [1];
  await withContestants(
    bench,
    contestants.map((contestant) => [contestant, database]),
    async (servers) => {
      // The first list of a process compiles the code for the later ones.
      for (const server of servers.values()) {
        await read(client, server, bench, { readers: 1, bytes, lists: lists.warmUp }).catch(() => undefined);
      }
      const floors = psqlVersion() === undefined ? [] : [PSQL, PSQL_ALONE];
      await interleave([...floors, ...contestants], options.rounds, async (contestant) => {
        if (contestant === PSQL) {
          results.record(`list/${size}/wallMs`, PSQL, await timeOfCopy(database.url));
          return;
        }
        if (contestant === PSQL_ALONE) {
          results.record(`list/${size}/wallMs`, PSQL_ALONE, await timeOfNothing(database.url));
          return;
        }
        for (const count of readers) {
          const name = count === 1 ? `list/${size}` : `list/${size}/readers`;
          try {
            const { wallMs, firstByteMs } = await read(client, servers.get(contestant), bench, {
              readers: count,
              bytes,
              lists: lists.perRound,
            });
            results.record(`${name}/wallMs`, contestant, wallMs);
            results.record(`${name}/firstByteMs`, contestant, firstByteMs);
          } catch (error) {
            results.fail(`${name}/wallMs`, contestant, error.message);
            results.fail(`${name}/firstByteMs`, contestant, error.message);
          }
        }
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      });
    },
  );
}

/** In a new process: memory left from an earlier list would hide what this one uses. */
async function measureMemory(bench, { options, results, client }) {
  progress(`list: memory at ${options.orders} orders`);
  const database = await bench.databases.forLists(options.orders);
  const bytes = await database.listBytes();
  await interleave(available(bench, CONTESTANTS), Math.min(options.rounds, MEMORY_ROUNDS_MAX), async (contestant) => {
    const name = `list/${options.orders}/peakOverIdleBytes`;
    const server = await startContestant(contestant, bench, database);
    try {
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
      resetPeak(server.pid);
      const idle = memoryOf(server.pid).resident;
      await read(client, server, bench, { readers: 1, bytes });
      results.record(name, contestant, memoryOf(server.pid).peak - idle);
    } catch (error) {
      results.fail(name, contestant, error.message);
    } finally {
      await server.stop();
    }
  });
}

/**
 * Reads lists one after the other.
 * @returns the medians of their times
 * @throws {Error} unless every client received exactly the expected number of bytes
 */
async function read(client, server, bench, { readers, bytes, lists = 1 }) {
  const runs = [];
  for (let count = 0; count < lists; count++) {
    const run = await client.run({ kind: 'plain', port: server.port, key: bench.keys.unlimited, readers });
    const wrong = run.bodyBytes.find((size) => size !== bytes);
    if (wrong !== undefined) {
      throw new Error(`received a list of ${wrong} bytes instead of ${bytes}`);
    }
    runs.push(run);
  }
  return { wallMs: median(runs.map((run) => run.wallMs)), firstByteMs: median(runs.map((run) => run.firstByteMs)) };
}
