import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '../clients/client.mjs';
import { startContestant, withContestants } from '../contestants/contestants.mjs';
import { exhaustLimitedKey } from '../contestants/server-process.mjs';
import { measureLoad, warmUp } from '../measure/load.mjs';
import { memoryOf, resetPeak } from '../measure/proc.mjs';
import { CONNECTIONS, MAIN_CONNECTIONS } from './cancel.mjs';
import { CHANGES, readList } from './list-changes.mjs';
import { cancels, etagOf, list, poll, rejected, rejectedFromManyAddresses } from './requests.mjs';

const WARM_UP_SECONDS = 0.3;
const CANCELLED_ORDERS = 200_000;
const LIST_CONNECTIONS = [1, 32];
const IDLE_AFTER_MS = 2_000;
/** So that a list and its client do not compete with the end of the one before. */
const PAUSE_MS = 100;
const MIB = 1_048_576;

/** What builds of this service are compared by. Each scenario calls `compare` with a label and what measures one round of one build. */
export const BUILD_SCENARIOS = {
  cancel: compareCancels,
  rejections: compareRejections,
  list: compareSmallLists,
  changes: compareLargeLists,
  memory: compareMemory,
  start: compareStarts,
};

async function compareCancels({ bench, contestants, seconds, compare }) {
  const database = await bench.databases.forCancels(CANCELLED_ORDERS);
  await underLoad(bench, { contestants, database, seconds }, async (run) => {
    const request = cancels(bench.keys.unlimited, CANCELLED_ORDERS);
    const cancelled = (contestant, connections) =>
      run(contestant, { connections, request }, [204]).finally(() => database.resetCancelled());
    for (const contestant of contestants) {
      await cancelled(contestant, MAIN_CONNECTIONS);
    }
    for (const connections of CONNECTIONS) {
      await compare(`cancels, ${connections} connections`, (contestant) => cancelled(contestant, connections));
    }
  });
}

async function compareRejections({ bench, contestants, seconds, compare }) {
  const database = await bench.databases.forLists(1);
  const { limited, unknown } = bench.keys;
  await underLoad(bench, { contestants, database, seconds, TRUST_PROXY: '1' }, async (run, servers) => {
    for (const server of servers.values()) {
      await exhaustLimitedKey(server.port, bench.keys);
    }
    for (const [label, request, expected] of [
      ['401, each time from another address', rejectedFromManyAddresses(unknown), [401]],
      ['429, key over its limit', rejected(limited), [429]],
      ['401 then 429, from one address', rejected(unknown), [401, 429]],
    ]) {
      const connections = MAIN_CONNECTIONS;
      await compare(label, (contestant) => run(contestant, { connections, request }, expected));
    }
  });
}

async function compareSmallLists({ bench, contestants, seconds, compare }) {
  for (const orders of [1, 1_000]) {
    const database = await bench.databases.forLists(orders);
    const { unlimited } = bench.keys;
    await underLoad(bench, { contestants, database, seconds }, async (run, servers) => {
      const requests = new Map();
      for (const contestant of contestants) {
        // Builds may name the same version differently.
        const etag = await etagOf(servers.get(contestant), unlimited);
        requests.set(contestant, {
          gzip: [list(unlimited, 'gzip'), [200]],
          plain: [list(unlimited, 'identity'), [200]],
          unchanged: [poll(unlimited, etag), [304]],
        });
      }
      for (const kind of ['gzip', 'plain', 'unchanged']) {
        for (const connections of LIST_CONNECTIONS) {
          await compare(`list of ${orders}, ${kind}, ${connections} connections`, (contestant) => {
            const [request, expected] = requests.get(contestant)[kind];
            return run(contestant, { connections, request }, expected);
          });
        }
      }
    });
  }
}

/** Each list is read twice: the first one fills the memory. */
async function compareLargeLists({ bench, contestants, orders, compare }) {
  const database = await bench.databases.forLists(orders);
  const client = new Client('list');
  try {
    await withContestants(
      bench,
      contestants.map((contestant) => [contestant, database]),
      async (servers) => {
        for (const kind of ['gzip', 'plain']) {
          for (const change of ['nothing', 'insert', 'everything']) {
            await compare(`list of ${orders}, ${kind}, changed: ${change}`, async (contestant) => {
              const server = servers.get(contestant);
              await readList(client, server, bench, { kind: 'gzip' });
              await CHANGES[change](database.client);
              await delay(PAUSE_MS);
              return readList(client, server, bench, { kind });
            });
          }
        }
      },
    );
  } finally {
    await client.stop();
  }
}

/** Of new processes, over their memory at rest: lists that do not change, and then one that is read anew. */
async function compareMemory({ bench, orders, compare }) {
  const database = await bench.databases.forLists(orders);
  const client = new Client('list');
  try {
    await compare(`list of ${orders}, peak of memory`, (contestant) =>
      withContestants(bench, [[contestant, database]], async (servers) => {
        const server = servers.get(contestant);
        await delay(IDLE_AFTER_MS);
        const atRest = memoryOf(server.pid).resident;
        const peakMiB = async (kinds) => {
          resetPeak(server.pid);
          for (const kind of kinds) {
            await readList(client, server, bench, { kind });
          }
          return (memoryOf(server.pid).peak - atRest) / MIB;
        };
        const unchangedMiB = await peakMiB(['gzip', 'plain', 'gzip']);
        await CHANGES.everything(database.client);
        return { unchangedMiB, everythingMiB: await peakMiB(['gzip']) };
      }),
    );
  } finally {
    await client.stop();
  }
}

async function compareStarts({ bench, compare }) {
  const database = await bench.databases.forLists(1);
  await compare('start and idle memory', async (contestant) => {
    const server = await startContestant(contestant, bench, database);
    try {
      await delay(IDLE_AFTER_MS);
      return { startMs: server.startMs, idleMiB: memoryOf(server.pid).resident / MIB };
    } finally {
      await server.stop();
    }
  });
}

/** Starts the builds, and passes what measures one of them under load, and the servers. */
async function underLoad(bench, { contestants, database, seconds, ...environment }, work) {
  const client = new Client('load');
  const started = new Map(contestants.map((each) => [each, withEnvironment(each, environment)]));
  try {
    await withContestants(
      bench,
      Array.from(started.values(), (contestant) => [contestant, database]),
      async (running) => {
        const servers = new Map(Array.from(started, ([contestant, variant]) => [contestant, running.get(variant)]));
        const settingOf = (contestant) => ({
          client,
          server: servers.get(contestant),
          postgresPid: bench.postgres.pid,
        });
        const run = async (contestant, spec, expected) => {
          const { perSecond, p99Ms, serverCpuMicros } = await measureLoad(
            settingOf(contestant),
            { ...spec, warmupSeconds: WARM_UP_SECONDS, seconds },
            expected,
          );
          return { perSecond, p99Ms, serverCpuMicros };
        };
        for (const contestant of contestants) {
          await warmUp(settingOf(contestant), { connections: MAIN_CONNECTIONS, request: rejected(bench.keys.unknown) });
        }
        await work(run, servers);
      },
    );
  } finally {
    await client.stop();
  }
}

const withEnvironment = (contestant, environment) => ({
  ...contestant,
  environment: { ...contestant.environment, ...environment },
});
