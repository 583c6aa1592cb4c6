import { withSmallPieces } from '../helpers/small-pieces.js';
import { withSeed } from '../helpers/seeded-random.js';
import { connectWriter, observe, Witness, Writer } from './list-writer.js';
import { useTestService } from '../helpers/test-service.js';
import { readList } from '../helpers/wire.js';

const STEPS = 150;
const WRITERS = 3;

// The more pieces, the more can go wrong.
const context = useTestService({ override: withSmallPieces });

it('random statements of several writers: each version names one content, which the service lists', async () => {
  await withSeed(async (random) => {
    const clients = await Promise.all(Array.from({ length: WRITERS }, () => connectWriter(context.service.url)));
    const writers = clients.map((client) => new Writer(client, random.fork()));
    const lists = new Witness();
    const pieces = new Witness();
    const served: { etag: string | undefined; text: string }[] = [];
    const expected: typeof served = [];
    try {
      for (let step = 0; step < STEPS; step++) {
        await random.pick(writers).step();
        if (random.chance(0.4)) {
          // A writer that holds the table exclusively would keep the observer waiting.
          await Promise.all(writers.filter(() => random.chance(0.6)).map((writer) => writer.end()));
          const isLocked = await context.service.db.query(
            `SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()
             WHERE relation = 'orders'::regclass AND mode = 'AccessExclusiveLock'`,
          );
          if ((isLocked.rowCount ?? 0) > 0) {
            await Promise.all(writers.map((writer) => writer.end()));
          }
          const { etag, text, pieces: seen } = await observe(context.service.url, random.pick([1, 1, 2, 5]));
          lists.see(etag, text);
          for (const [piece, content] of seen) {
            pieces.see(piece, content);
          }
          served.push(await readList(context.service.port, context.key, random.pick(['gzip', 'identity'])));
          expected.push({ etag, text });
        }
      }
    } finally {
      await Promise.all(writers.map((writer) => writer.end()));
      await Promise.all(clients.map((client) => client.end()));
    }
    expect(served.length).toBeGreaterThan(20);
    expect(served).toEqual(expected);
  });
});
