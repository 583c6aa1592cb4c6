import { insertKey } from '../helpers/builders.js';
import { withSmallPieces } from '../helpers/small-pieces.js';
import { withSeed } from '../helpers/seeded-random.js';
import { createTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { responseTo, textOf } from '../helpers/wire.js';
import { Witness } from './list-writer.js';
import { SchemaChanger } from './schema-changer.js';

const STEPS = 120;

interface Listed {
  readonly text: string;
  /** States of the table, by their number, that the list may show. */
  readonly from: number;
  readonly to: number;
}

it('random changes of orders, tables and triggers: each list shows the table at some moment of its request', async () => {
  await withSeed(async (random) => {
    const database = await createTestDatabase();
    const { key } = await insertKey(database.db);
    await database.db.query(`
      INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(1, 3) AS n;
      INSERT INTO orders (id, pet_id, quantity) SELECT n, n, 1 FROM generate_series(16000, 50000, 1000) AS n`);
    const start = (): Promise<TestService> => startTestService({ database, asOwner: true, override: withSmallPieces });
    const services = [await start(), await start()];
    const changer = await SchemaChanger.connect(database.url, random.fork());
    const etags = new Witness();
    const listed: Listed[] = [];
    let isOver = false;

    const list = async (index: number, encoding: 'gzip' | 'identity'): Promise<void> => {
      const from = changer.history.length - 1;
      const headers = [`Accept-Encoding: ${encoding}`];
      const response = await responseTo(services[index]!.port, 'GET', '/v1/store/orders', { key, headers });
      // A lock on the table may last longer than a list waits.
      expect([200, 503]).toContain(response.status);
      if (response.status === 200) {
        const text = textOf(response);
        listed.push({ text, from, to: changer.steps });
        const etag = response.headers.get('etag')?.[0];
        if (etag !== undefined) {
          etags.see(etag, text);
        }
      }
    };
    const keepListing = async (): Promise<void> => {
      for (const choices = random.fork(); !isOver;) {
        await list(0, choices.pick(['gzip', 'identity']));
      }
    };

    const listing = [keepListing(), keepListing()];
    try {
      for (let step = 0; step < STEPS; step++) {
        await changer.step();
        if (step % 4 === 0) {
          await list(1, 'gzip');
        }
      }
      await changer.restore();
      isOver = true;
      await Promise.all(listing);
      await list(0, 'gzip');
      await list(1, 'identity');
    } finally {
      isOver = true;
      await Promise.allSettled(listing);
      await changer.end();
      await Promise.all(services.map((service) => service.stop()));
      await database.drop();
    }

    const { history } = changer;
    const wrong = listed.filter(({ text, from, to }) => !history.slice(from, to + 1).includes(text));
    expect(wrong).toEqual([]);
    expect(listed.length).toBeGreaterThan(STEPS);
    expect(etags.size).toBeGreaterThan(10);
  });
});
