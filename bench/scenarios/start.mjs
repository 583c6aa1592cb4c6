import { setTimeout as delay } from 'node:timers/promises';
import { memoryOf } from '../proc.mjs';
import { Server } from '../servers/server.mjs';

const IDLE_AFTER_MS = 2_000;

/** Time from the start of the process to its first response that needs the database, and its memory at rest. */
export async function start({ bench, contestants, compare }) {
  const database = await bench.forLists(1);
  await compare('start and idle memory', contestants, (contestant) =>
    Server.withAll([contestant], bench, database, async (servers) => {
      const { startMs, pid } = servers.get(contestant);
      await delay(IDLE_AFTER_MS);
      return { startMs, idleMiB: memoryOf(pid).residentMiB };
    }),
  );
}
