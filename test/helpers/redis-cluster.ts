import { Redis } from 'ioredis';
import type { RedisServer } from './redis-server.js';
import { waitFor } from './wait-for.js';

/** Forms a Redis Cluster of masters, with the slots in equal ranges in the order of the servers. */
export async function formCluster(masters: readonly RedisServer[]): Promise<void> {
  const clients = masters.map((master) => new Redis(master.url));
  const share = Math.ceil(16_384 / masters.length);
  for (const [index, client] of clients.entries()) {
    await client.call(
      'CLUSTER',
      'ADDSLOTSRANGE',
      String(index * share),
      String(Math.min((index + 1) * share, 16_384) - 1),
    );
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
    if (index > 0) {
      await client.call('CLUSTER', 'MEET', '127.0.0.1', String(masters[0]!.port));
    }
  }
  for (const client of clients) {
    await waitFor(
      async () => String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
      'the cluster is up',
    );
    await waitFor(
      async () => String(await client.call('CLUSTER', 'INFO')).includes(`cluster_known_nodes:${masters.length}`),
      'every node has met all others',
    );
    client.disconnect();
  }
}
