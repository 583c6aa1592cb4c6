import { copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './clients/client.mjs';
import { OWN, OWN_BEHIND_PROXY, startContestant } from './contestants/contestants.mjs';
import { exhaustLimitedKey } from './contestants/server-process.mjs';
import { measureLoad } from './measure/load.mjs';
import { progress } from './measure/progress.mjs';
import { cancels, etagOf, poll, rejected, rejectedFromManyAddresses } from './scenarios/requests.mjs';

const ENTRIES = 40;
const FIRST_USE_RECORDED_MS = 1_500;

/** Runs this service under V8's sampling profiler and returns the functions with the most self time. */
export async function profile(bench, options) {
  const folder = join(bench.folder, 'profile');
  mkdirSync(folder);
  const contestant = options.profile === 'unknown' ? OWN_BEHIND_PROXY : OWN;
  const isCancel = options.profile === 'cancel';
  const database = await (isCancel
    ? bench.databases.forCancels(options.orders)
    : bench.databases.forLists(options.orders));
  const server = await startContestant(contestant, bench, database, {
    nodeFlags: ['--cpu-prof', `--cpu-prof-dir=${folder}`],
  });
  let summary;
  const startMs = performance.now() - server.startedAt;
  try {
    progress(`profiling: ${options.profile}`);
    summary = await (options.profile === 'list' ? readLists(server, bench, options) : load(server, bench, options));
  } finally {
    await server.stop();
  }
  const [file] = readdirSync(folder).filter((name) => name.endsWith('.cpuprofile'));
  if (file === undefined) {
    throw new Error(`The service wrote no profile. Its output:\n${server.output}`);
  }
  if (options.json !== undefined) {
    copyFileSync(join(folder, file), options.json);
  }
  return `${summary}\n\n${topSelfTime(JSON.parse(readFileSync(join(folder, file), 'utf8')), startMs)}`;
}

async function load(server, bench, { profile: name, connections, orders, warmup, seconds }) {
  await exhaustLimitedKey(server.port, bench.keys);
  await delay(FIRST_USE_RECORDED_MS);
  const client = new Client('load');
  try {
    const [request, expected] = await requestOf(name, server, bench.keys, orders);
    const run = await measureLoad(
      { client, server, postgresPid: bench.postgres.pid },
      { connections, request, warmupSeconds: warmup, seconds },
      [expected],
    );
    return `${name}: ${Math.round(run.perSecond)} requests/s under the profiler, ${Math.round(run.serverCpuMicros)} µs of CPU each, PostgreSQL ${Math.round(run.postgresCpuSecondsPer1000 * 1_000)} µs`;
  } finally {
    await client.stop();
  }
}

async function requestOf(name, server, keys, orders) {
  switch (name) {
    case 'cancel':
      return [cancels(keys.unlimited, orders), 204];
    case 'polls':
      return [poll(keys.unlimited, await etagOf(server, keys.unlimited)), 304];
    case 'limited':
      return [rejected(keys.limited), 429];
    default:
      return [rejectedFromManyAddresses(keys.unknown), 401];
  }
}

async function readLists(server, bench, { seconds, orders }) {
  const client = new Client('list');
  const deadline = performance.now() + seconds * 1_000;
  let lists = 0;
  try {
    while (performance.now() < deadline) {
      await client.run({ kind: 'plain', port: server.port, key: bench.keys.unlimited, readers: 1 });
      lists++;
    }
    return `list: ${lists} lists of ${orders} orders under the profiler`;
  } finally {
    await client.stop();
  }
}

/**
 * Sums the samples of a `.cpuprofile` by function.
 * @param skipMs duration of the start, which is left out
 */
function topSelfTime({ nodes, samples, timeDeltas }, skipMs) {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const micros = new Map();
  let total = 0;
  let sinceStart = 0;
  samples.forEach((id, index) => {
    sinceStart += timeDeltas[index];
    if (sinceStart < skipMs * 1_000) {
      return;
    }
    const name = names.get(id);
    micros.set(name, (micros.get(name) ?? 0) + timeDeltas[index]);
    total += timeDeltas[index];
  });
  const busy = total - (micros.get('(idle)') ?? 0);
  const lines = Array.from(micros)
    .filter(([name]) => name !== '(idle)')
    .sort(([, left], [, right]) => right - left)
    .slice(0, ENTRIES)
    .map(([name, time]) => `| ${((time / busy) * 100).toFixed(1)} % | ${Math.round(time / 1_000)} ms | ${name} |`);
  return ['| self time | | function |', '| --- | --- | --- |', ...lines].join('\n');
}

/** The function and its location, from the last package or source folder on. */
function nameOf({ functionName, url, lineNumber }) {
  const place = url.replace(/^.*\/(?=node_modules\/|dist\/)/, '');
  return `${functionName === '' ? '(anonymous)' : functionName}${place === '' ? '' : ` ${place}:${lineNumber + 1}`}`;
}
