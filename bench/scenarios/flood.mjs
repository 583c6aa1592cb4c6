import { Client } from '../clients/client.mjs';
import { FASTIFY_PG, OWN, withContestants } from '../contestants/contestants.mjs';
import { exhaustLimitedKey } from '../contestants/server-process.mjs';
import { InvalidRun, measureLoad, recordRun, warmUp } from '../measure/load.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';
import { MAIN_CONNECTIONS } from './cancel.mjs';
import { cancels, rejected } from './requests.mjs';

export const FLOOD_PER_SECOND = 5_000;
const FLOOD_CONNECTIONS = 64;
/** The flood starts before the run of the cancels and ends after it. */
const FLOOD_LEAD_SECONDS = 0.5;
/** Below this share of its pace the run is invalid: a contestant that slows the flood down would look better. */
const PACE_SHARE_MIN = 0.9;

const CONTESTANTS = [OWN, FASTIFY_PG];

/** Cancels, alone and during a flood of requests from one key over its limit. */
export async function measureFlood(bench, options, results) {
  const database = await bench.databases.forCancels(options.orders);
  const [client, flooder] = [new Client('load'), new Client('load')];
  const turns = CONTESTANTS.flatMap((contestant) => [
    { contestant, flooded: false },
    { contestant, flooded: true },
  ]);
  try {
    await withContestants(
      bench,
      CONTESTANTS.map((contestant) => [contestant, database]),
      async (servers) => {
        const spec = {
          connections: MAIN_CONNECTIONS,
          request: cancels(bench.keys.unlimited, options.orders),
          warmupSeconds: options.warmup,
          seconds: options.seconds,
        };
        for (const server of servers.values()) {
          await exhaustLimitedKey(server.port, bench.keys);
          await warmUp({ client, server }, spec);
          await database.resetCancelled();
        }
        await interleave(turns, options.rounds, async ({ contestant, flooded }) => {
          progress(`flood: ${contestant.name}, ${flooded ? 'with flood' : 'without flood'}`);
          const setting = { client, server: servers.get(contestant), postgresPid: bench.postgres.pid };
          const cancelling = () => measureLoad(setting, spec, [204]);
          const name = flooded ? 'flood/flooded' : 'flood/calm';
          await recordRun(results, name, contestant, () =>
            flooded ? beside(flooder, setting, bench, options, cancelling) : cancelling(),
          );
          await database.resetCancelled();
        });
      },
    );
  } finally {
    await Promise.all([client.stop(), flooder.stop()]);
  }
}

async function beside(flooder, setting, bench, { warmup, seconds }, cancelling) {
  const flood = measureLoad(
    { ...setting, client: flooder },
    {
      connections: FLOOD_CONNECTIONS,
      request: rejected(bench.keys.limited),
      warmupSeconds: FLOOD_LEAD_SECONDS,
      seconds: warmup + seconds + FLOOD_LEAD_SECONDS,
      perSecond: FLOOD_PER_SECOND,
    },
    [429],
  );
  await new Promise((resolve) => setTimeout(resolve, FLOOD_LEAD_SECONDS * 1_000));
  // Await both in any case, so that neither continues into the next turn.
  const outcomes = await Promise.allSettled([cancelling(), flood]);
  const failed = outcomes.find(({ status }) => status === 'rejected');
  if (failed !== undefined) {
    throw failed.reason;
  }
  const [run, flooded] = outcomes.map(({ value }) => value);
  if (flooded.perSecond < FLOOD_PER_SECOND * PACE_SHARE_MIN) {
    throw new InvalidRun(`the flood reached only ${Math.round(flooded.perSecond)} requests/s`);
  }
  return run;
}
