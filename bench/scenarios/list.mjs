import { listAs, poll } from './requests.mjs';
import { underLoad } from './under-load.mjs';

const SIZES = [1, 1_000];
const CONNECTIONS = [1, 32];

/** Short lists under load: compressed, plain, and unchanged (304). */
export async function list({ bench, contestants, seconds, compare }) {
  const { unlimited } = bench.keys;
  const plain = listAs(unlimited, 'identity');
  for (const size of SIZES) {
    const database = await bench.forLists(size);
    await underLoad({ bench, contestants, database, seconds, warmUp: plain }, async (run, servers) => {
      // Builds may name the same version differently.
      const etags = new Map();
      for (const [contestant, server] of servers) {
        etags.set(contestant, (await server.fetch(unlimited)).headers.get('etag'));
      }
      for (const connections of CONNECTIONS) {
        const measure = (what, taking, requestOf, status) =>
          compare(`list of ${size}, ${what}, ${connections} connections`, taking, (contestant) =>
            run(contestant, requestOf(contestant), connections, [status]),
          );
        await measure('plain', contestants, () => plain, 200);
        const compressing = contestants.filter(({ compresses }) => compresses);
        await measure('gzip', compressing, () => listAs(unlimited, 'gzip'), 200);
        const own = contestants.filter(({ isOwn }) => isOwn);
        await measure('unchanged', own, (contestant) => poll(unlimited, etags.get(contestant)), 304);
      }
    });
  }
}
