// Measures what the triggers of the list cost writers: the same statements with and without them, in turn; see README.md.
//   node bench/writers.mjs [--orders 1000000] [--rounds 5]
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { Environment } from './environment/environment.mjs';
import { progress } from './measure/progress.mjs';
import { interleave } from './measure/rounds.mjs';
import { median } from './measure/statistics.mjs';

const SINGLE_STATEMENTS = 1_000;
const TURNS = 20;
const COPIED_ORDERS = 100_000;
const SINGLE_STATEMENT = {
  'single-row INSERT': 'INSERT INTO orders (pet_id, quantity) VALUES ($1, 1)',
  cancel: `UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = $1 AND status = 'pending'`,
};

const { values } = parseArgs({
  options: { orders: { type: 'string', default: '1000000' }, rounds: { type: 'string', default: '5' } },
});
const [orders, rounds] = [values.orders, values.rounds].map(Number);

const bench = new Environment();
try {
  progress('starting PostgreSQL');
  await bench.start();
  const { url } = await bench.databases.forLists(orders);
  const db = new pg.Client(url);
  await db.connect();
  db.on('error', () => undefined);
  const { rows } = await db.query('SHOW data_directory');
  // Where PostgreSQL, which may run as another user, can write.
  const file = join(rows[0].data_directory, 'copied-orders');
  await db.query(
    `COPY (SELECT 10000000 + n AS id, n AS pet_id, 1 AS quantity FROM generate_series(1, ${COPIED_ORDERS}) AS n) TO '${file}'`,
  );

  const { rows: triggers } = await db.query(
    "SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'orders'::regclass AND NOT tgisinternal",
  );
  const times = new Map();
  const measure = async (name, isOn, run) => {
    const startedAt = performance.now();
    await run();
    const key = `${name}|${isOn}`;
    times.set(key, [...(times.get(key) ?? []), performance.now() - startedAt]);
  };
  const setTriggers = async (isOn) => {
    for (const { tgname, tgenabled } of triggers) {
      const mode = isOn ? `ENABLE ${tgenabled === 'R' ? 'REPLICA' : 'ALWAYS'}` : 'DISABLE';
      await db.query(`ALTER TABLE orders ${mode} TRIGGER ${tgname}`);
    }
    // Not in the measured time: the session reads the table's definition again.
    await db.query('UPDATE orders SET pet_id = pet_id WHERE id = 1');
  };
  const reset = async () => {
    await db.query('DELETE FROM orders WHERE id > $1', [orders]);
    await db.query("UPDATE orders SET status = 'pending', cancelled_at = NULL WHERE status = 'cancelled'");
    await db.query('VACUUM orders');
    await db.query('TRUNCATE order_list_changes');
    await db.query('CHECKPOINT');
  };

  progress('single statements');
  let id = 0;
  // Short turns and medians of statements, because the disk delays some commits.
  await interleave([true, false], rounds * TURNS, async (isOn) => {
    await setTriggers(isOn);
    for (let count = 0; count < SINGLE_STATEMENTS / TURNS; count++) {
      id++;
      for (const [name, text] of Object.entries(SINGLE_STATEMENT)) {
        await measure(name, isOn, () => db.query({ name, text, values: [id] }));
      }
    }
  });
  await reset();

  progress('COPY');
  await interleave([true, false], rounds * 3, async (isOn) => {
    await setTriggers(isOn);
    await measure(`COPY of ${COPIED_ORDERS} rows`, isOn, () =>
      db.query(`COPY orders (id, pet_id, quantity) FROM '${file}'`),
    );
    await reset();
  });
  let appended = 0;
  await interleave([true, false], rounds, async (isOn, round) => {
    progress(`round ${round + 1}, triggers ${isOn ? 'on' : 'off'}`);
    await setTriggers(isOn);
    await measure(`UPDATE of ${orders} rows`, isOn, () =>
      db.query('UPDATE orders SET quantity = quantity + 1 WHERE id <= $1', [orders]),
    );
    if (isOn) {
      ({
        rows: [{ appended }],
      } = await db.query('SELECT count(*)::int AS appended FROM order_list_changes'));
    }
    await reset();
  });
  await db.end();

  for (const name of new Set(Array.from(times.keys(), (key) => key.split('|')[0]))) {
    const [on, off] = [median(times.get(`${name}|true`)), median(times.get(`${name}|false`))];
    process.stdout.write(`${name}: ${on.toFixed(2)} ms with, ${off.toFixed(2)} ms without, ${(on / off).toFixed(2)}\n`);
  }
  process.stdout.write(`rows appended by the UPDATE: ${appended} for ${Math.ceil(orders / 16_384)} blocks\n`);
} finally {
  await bench.stop();
}
