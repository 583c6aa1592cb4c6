import { Client } from '../clients/client.mjs';
import { OWN, withContestants } from '../contestants/contestants.mjs';
import { InvalidRun } from '../measure/load.mjs';
import { cpuSecondsOf } from '../measure/proc.mjs';
import { progress } from '../measure/progress.mjs';

/** The Business plan's requests per minute. */
export const LISTS_PER_MINUTE = 1_000;
export const PACED_SECONDS = 60;
const CHANGE_INTERVAL_MS = 1_000;

/** One minute of compressed lists at the rate of the Business plan, while one order changes every second. */
export async function measurePacedLists(bench, options, results) {
  const database = await bench.databases.forLists(options.orders);
  const client = new Client('list');
  try {
    await withContestants(bench, [[OWN, database]], async (running) => {
      const server = running.get(OWN);
      const spec = { kind: 'paced', port: server.port, key: bench.keys.unlimited, perMinute: LISTS_PER_MINUTE };
      await client.run({ ...spec, seconds: 2 });
      progress(`paced: ${LISTS_PER_MINUTE} lists per minute`);
      const bytes = await database.listBytes();
      let changes = 0;
      let failed;
      const changing = setInterval(() => {
        database.client.query(CHANGE).then(
          () => changes++,
          (error) => (failed = error),
        );
      }, CHANGE_INTERVAL_MS);
      const cpuBefore = cpuSecondsOf(server.pid);
      const run = await client.run({ ...spec, seconds: PACED_SECONDS }).finally(() => clearInterval(changing));
      const cpuShare = (cpuSecondsOf(server.pid) - cpuBefore) / run.seconds;
      if (failed !== undefined) {
        throw failed;
      }
      if (changes < PACED_SECONDS / 2 || run.smallestBytes < bytes) {
        throw new InvalidRun(`${changes} changes, smallest list of ${run.smallestBytes} bytes`);
      }
      results.record('paced/p50Ms', OWN, run.p50Ms);
      results.record('paced/p99Ms', OWN, run.p99Ms);
      results.record('paced/cpuShare', OWN, cpuShare);
      results.record('paced/perMinute', OWN, (run.lists * 60) / run.seconds);
    });
  } catch (error) {
    for (const metric of ['p50Ms', 'p99Ms', 'cpuShare', 'perMinute']) {
      results.fail(`paced/${metric}`, OWN, error.message);
    }
  } finally {
    await client.stop();
  }
}

/** A larger quantity never makes the list shorter. */
const CHANGE = `
  UPDATE orders SET quantity = quantity + 1 WHERE id = (SELECT (random() * (max(id) - 1))::bigint + 1 FROM orders)`;
