import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '../clients/client.mjs';
import { memoryOf, resetPeak } from '../proc.mjs';
import { Server } from '../servers/server.mjs';
import { renewAllBlocks } from './changes.mjs';
import { listAs } from './requests.mjs';

const IDLE_AFTER_MS = 2_000;

/** The peaks of new processes over their memory at rest: of lists that do not change, and then of one that is read anew. */
export async function memory({ bench, contestants, orders, compare }) {
  const database = await bench.forLists(orders);
  const client = new Client();
  try {
    await compare(`list of ${orders}, peak of memory`, contestants, (contestant) =>
      Server.withAll([contestant], bench, database, async (servers) => {
        const server = servers.get(contestant);
        await delay(IDLE_AFTER_MS);
        const { residentMiB } = memoryOf(server.pid);
        const peakOf = async (encodings) => {
          resetPeak(server.pid);
          for (const encoding of encodings) {
            await client.run(server, { kind: 'list', request: listAs(bench.keys.unlimited, encoding) }, [200]);
          }
          return memoryOf(server.pid).peakMiB - residentMiB;
        };
        const unchangedMiB = await peakOf(['gzip', 'identity', 'gzip']);
        await renewAllBlocks(database.client);
        return { unchangedMiB, everythingMiB: await peakOf(['gzip']) };
      }),
    );
  } finally {
    client.stop();
  }
}
