import { rejected, rejectedFromManyAddresses } from './requests.mjs';
import { underLoad } from './under-load.mjs';

const CONNECTIONS = 64;

/**
 * Requests that are rejected. One address is limited to 60 requests a minute without a valid key, so unknown keys are measured from
 * many addresses and from one.
 */
export async function rejections({ bench, contestants, seconds, compare }) {
  const database = await bench.forLists(1);
  const { limited, unknown } = bench.keys;
  const warmUp = rejectedFromManyAddresses(unknown);
  await underLoad({ bench, contestants, database, seconds, warmUp }, async (run, servers) => {
    for (const server of servers.values()) {
      // The only request that this key may make.
      await server.fetch(limited, 'DELETE', '/0');
    }
    for (const [label, request, expected] of [
      ['401, each from another address', warmUp, [401]],
      ['429, key over its limit', rejected(limited), [429]],
      ['401 then 429, from one address', rejected(unknown), [401, 429]],
    ]) {
      await compare(label, contestants, (contestant) => run(contestant, request, CONNECTIONS, expected));
    }
  });
}
