// Measures the usage of keys: how long the writer's statement takes for many active keys, and how long
// `petstore keys usage` takes over a table of many days. Not a comparison; see README.md.
//   node bench/usage.mjs [--keys 10000] [--days 400] [--rounds 7]
// With --request-path, measures instead what counting costs a request: cancels of the bundle, and of a copy that counts nothing.
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import pg from 'pg';
import { UsageRepository } from '../dist/api-keys/usage/usage.repository.js';
import { loadConfig } from '../dist/config/load-config.js';
import { Pools } from '../dist/database/pools.js';
import { PrismaService } from '../dist/database/prisma.service.js';
import { Metrics } from '../dist/metrics/metrics.js';
import { Environment } from './environment/environment.mjs';
import { progress } from './measure/progress.mjs';
import { median } from './measure/statistics.mjs';

const BUNDLE = fileURLToPath(new URL('../dist/bundle', import.meta.url));
const BUILDS = fileURLToPath(new URL('builds.mjs', import.meta.url));
const CLI = join(BUNDLE, 'cli.js');

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '10000' },
    days: { type: 'string', default: '400' },
    rounds: { type: 'string', default: '7' },
    'request-path': { type: 'boolean', default: false },
  },
});
if (values['request-path']) {
  compareRequestPath(values.rounds);
  process.exit();
}
const [keys, days, rounds] = [values.keys, values.days, values.rounds].map(Number);

const FILL_KEYS = `
  INSERT INTO api_keys (name, key_prefix, key_hash, plan)
  SELECT 'Partner ' || n, 'pst_' || n, sha256(('usage ' || n)::bytea), (ARRAY['free', 'pro', 'business'])[1 + n % 3]::plan
  FROM generate_series(1, $1::int) AS n`;
const FILL_USAGE = `
  INSERT INTO api_key_usage (day, key_id, admitted, rejected, banned, lists, cancels, list_bytes)
  SELECT CURRENT_DATE - age, id, (random() * 9000)::int, (random() * 20)::int, 0, (random() * 500)::int,
         (random() * 500)::int, (random() * 1e9)::bigint
  FROM generate_series($1::int - 1, 0, -1) AS age, api_keys ORDER BY 1`;

const bench = new Environment();
try {
  progress('starting PostgreSQL');
  await bench.start();
  const { url } = await bench.databases.forLists(1);
  const db = new pg.Client(url);
  await db.connect();
  progress(`inserting ${keys} keys and ${keys * days} rows`);
  await db.query(FILL_KEYS, [keys]);
  await db.query(FILL_USAGE, [days]);
  await db.query('VACUUM (ANALYZE) api_key_usage');
  const { rows } = await db.query('SELECT id FROM api_keys LIMIT $1', [keys]);
  const ids = rows.map(({ id }) => id);

  const pools = new Pools(loadConfig({ DATABASE_URL: url }), new Metrics());
  const prisma = new PrismaService(pools);
  const repository = new UsageRepository(prisma);
  const each = { admitted: 5, rejected: 1, banned: 0, lists: 2, cancels: 3, listBytes: 123_456 };
  const counted = ids.map((keyId) => ({ keyId, day: 0, ...each }));
  const flush = () => repository.add(counted, 0);
  const updates = await timesOf(rounds, flush);
  await db.query('DELETE FROM api_key_usage WHERE day = CURRENT_DATE');
  await db.query('VACUUM api_key_usage');
  const [insert] = await timesOf(1, flush);
  report(`flush of ${keys} keys, rows exist`, updates);
  report(`flush of ${keys} keys, first of the day`, [insert]);

  const run = (args) =>
    promisify(execFile)(process.execPath, [CLI, 'keys', 'usage', ...args], {
      env: { PATH: process.env.PATH, DATABASE_URL: url },
      maxBuffer: 2 ** 28,
    });
  report('keys usage', await timesOf(rounds, () => run([])));
  report(`keys usage --days ${days}`, await timesOf(rounds, () => run(['--days', String(days)])));
  report(`keys usage ID --days ${days}`, await timesOf(rounds, () => run([ids[0], '--days', String(days)])));
  await prisma.onApplicationShutdown();
  await pools.onApplicationShutdown();
  await db.end();
} finally {
  await bench.stop();
}

/** @param {string} rounds */
function compareRequestPath(rounds) {
  // Beside the bundle, so that both find the same packages.
  const copy = `${BUNDLE}-without-usage`;
  cpSync(BUNDLE, copy, { recursive: true });
  try {
    const files = readdirSync(copy).filter((name) => name.endsWith('.js'));
    const patched = files.reduce((sum, name) => sum + countNothing(join(copy, name)), 0);
    if (patched !== 3) throw new Error(`Expected the 3 methods of UsageRecorder in the bundle, found ${patched}.`);
    const program = join(BUNDLE, 'main.js');
    // The bundle against itself shows how much of a difference is noise.
    const builds = [`bundle=${program}`, `counting-nothing=${join(copy, 'main.js')}`, `bundle-again=${program}`];
    const options = ['--connections', '64', '--rounds', rounds, '--seconds', '1'];
    execFileSync(process.execPath, [BUILDS, ...builds, ...options], { stdio: 'inherit' });
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Makes the methods of UsageRecorder return at once. Returns how many of them the file has. */
function countNothing(path) {
  let methods = 0;
  const code = readFileSync(path, 'utf8').replace(/(?<![#.\w])(decided|listed|cancelled)\((\w+,?\w*)\)\{/g, (head) => {
    methods++;
    return `${head}return;`;
  });
  if (methods > 0) writeFileSync(path, code);
  return methods;
}

/** Milliseconds of each call, one after the other. */
async function timesOf(count, work) {
  const times = [];
  for (let round = 0; round < count; round++) {
    const startedAt = performance.now();
    await work(round);
    times.push(performance.now() - startedAt);
  }
  return times;
}

function report(what, times) {
  const worst = Math.max(...times);
  process.stdout.write(`${what}: median ${median(times).toFixed(0)} ms, worst ${worst.toFixed(0)} ms\n`);
}
