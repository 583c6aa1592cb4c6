import { Client } from '../clients/client.mjs';
import { Server } from '../servers/server.mjs';

const WARM_UP_SECONDS = 2;

/**
 * Starts all contestants on a database, warms them up, and passes what runs a load against one of them, and the servers.
 * @param {object} setting
 * @param {object} setting.warmUp the request of the warm-up
 * @param {() => Promise<void>} [setting.afterEach] after each run
 */
export async function underLoad({ bench, contestants, database, seconds, warmUp, afterEach }, work) {
  const client = new Client();
  try {
    await Server.withAll(contestants, bench, database, async (servers) => {
      const run = async (contestant, request, connections, expected, forSeconds = seconds) => {
        const spec = { kind: 'load', connections, request, seconds: forSeconds };
        const { perSecond, p99Ms, cpuMicros } = await client.run(servers.get(contestant), spec, expected);
        await afterEach?.();
        return { perSecond, p99Ms, cpuMicros };
      };
      for (const contestant of contestants) {
        await run(contestant, warmUp, 64, [200, 204, 401, 429], WARM_UP_SECONDS);
      }
      await work(run, servers);
    });
  } finally {
    client.stop();
  }
}
