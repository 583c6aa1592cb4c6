import { cpuSecondsOf, cpuSecondsOfFamily } from './proc.mjs';
import { progress } from './progress.mjs';

/** A run that is reported as invalid and never included in a median. */
export class InvalidRun extends Error {}

/**
 * One load run against one server, with the CPU time that the server and PostgreSQL spent on it.
 * @param {object} setting
 * @param {import('../clients/client.mjs').Client} setting.client
 * @param {{pid: number, port: number, output: string}} setting.server
 * @param {number} setting.postgresPid
 * @param {object} spec see `loadRun`; the port is added
 * @param {number[]} expected the statuses that may occur
 * @throws {InvalidRun} on any other status, on a broken connection, or without any response
 */
export async function measureLoad({ client, server, postgresPid }, spec, expected) {
  const cpu = { begin: { server: 0, postgres: 0 }, end: { server: 0, postgres: 0 } };
  const onEvent = (event) => {
    cpu[event] = { server: cpuSecondsOf(server.pid), postgres: cpuSecondsOfFamily(postgresPid) };
  };
  const result = await client.run({ ...spec, port: server.port }, { onEvent });
  const unexpected = Object.keys(result.statuses).filter((status) => !expected.includes(Number(status)));
  if (unexpected.length > 0) {
    throw new InvalidRun(`unexpected statuses: ${JSON.stringify(result.statuses)}`);
  }
  if (result.broken.length > 0) {
    throw new InvalidRun(`${result.broken.length} connections broke: ${result.broken[0]}`);
  }
  if (result.responses === 0) {
    throw new InvalidRun('no response');
  }
  return {
    ...result,
    serverCpuMicros: ((cpu.end.server - cpu.begin.server) / result.responses) * 1e6,
    postgresCpuSecondsPer1000: ((cpu.end.postgres - cpu.begin.postgres) / result.responses) * 1_000,
  };
}

const WARM_UP_SECONDS = 2;

/** Lets a new server compile its code, so that its first round is like the others. */
export async function warmUp({ client, server }, spec) {
  await client.run({ ...spec, port: server.port, warmupSeconds: 0, seconds: WARM_UP_SECONDS });
}

const METRICS = ['perSecond', 'p50Ms', 'p99Ms', 'serverCpuMicros', 'postgresCpuSecondsPer1000', 'clientCpuShare'];

/** Records every metric of a run, or its failure under every metric. */
export async function recordRun(results, name, contestant, measure) {
  try {
    const run = await measure();
    for (const metric of METRICS) {
      results.record(`${name}/${metric}`, contestant, run[metric]);
    }
  } catch (error) {
    progress(`invalid: ${error.message}`);
    for (const metric of METRICS) {
      results.fail(`${name}/${metric}`, contestant, error.message);
    }
  }
}
