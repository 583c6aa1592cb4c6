import { setTimeout as delay } from 'node:timers/promises';
import { FASTIFY_PG, NEST_PRISMA, OWN, startContestant } from '../contestants/contestants.mjs';
import { memoryOf } from '../measure/proc.mjs';
import { progress } from '../measure/progress.mjs';
import { interleave } from '../measure/rounds.mjs';

const IDLE_AFTER_MS = 2_000;

/** Time from the start of the process to its first response that needs the database, and its idle memory. */
export async function measureStart(bench, options, results) {
  const database = await bench.databases.forLists(1);
  await interleave([OWN, FASTIFY_PG, NEST_PRISMA], options.rounds, async (contestant) => {
    progress(`start: ${contestant.name}`);
    const server = await startContestant(contestant, bench, database);
    try {
      results.record('start/firstResponseMs', contestant, server.startMs);
      await delay(IDLE_AFTER_MS);
      results.record('start/idleBytes', contestant, memoryOf(server.pid).resident);
    } finally {
      await server.stop();
    }
  });
}
