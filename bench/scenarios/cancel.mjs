import { cancels } from './requests.mjs';
import { underLoad } from './under-load.mjs';

const CONNECTIONS = [1, 16, 64, 256];

/** Each request cancels a different pending order; all orders are pending again before the next run. */
export async function cancel({ bench, contestants, seconds, orders, compare }) {
  const database = await bench.forCancels(orders);
  const request = cancels(bench.keys.unlimited, orders);
  const afterEach = () => database.resetCancelled();
  await underLoad({ bench, contestants, database, seconds, warmUp: request, afterEach }, async (run) => {
    for (const connections of CONNECTIONS) {
      await compare(`cancels, ${connections} connections`, contestants, (contestant) =>
        run(contestant, request, connections, [204]),
      );
    }
  });
}
