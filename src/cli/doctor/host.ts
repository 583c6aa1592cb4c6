import { openFilesProblem } from '../../common/open-files.js';
import type { Config } from '../../config/config.js';
import { error, ok, type Result, type Results, skipped, warning } from './check.js';

const RESPONSE_TIMEOUT_MS = 3_000;

/** Checks the limits of this process and the ports of the service. */
export async function checkHost({ host, port, metricsPort, connectionsMax }: Config): Promise<Results> {
  return {
    'open files': checkOpenFiles(connectionsMax),
    port: await checkPort('PORT', host, port, '/health/live', '"status":"ok"'),
    'metrics port': await checkPort('METRICS_PORT', host, metricsPort, '/metrics', 'petstore_'),
  };
}

function checkOpenFiles(connectionsMax: number): Result {
  const problem = openFilesProblem(connectionsMax);
  return problem === undefined
    ? ok(`enough for MAX_CONNECTIONS=${connectionsMax}`)
    : warning(problem, 'Raise the limit where the service is started, or lower MAX_CONNECTIONS.');
}

/** Finds out by a request whether the service or another program listens. Opens no port. */
async function checkPort(variable: string, host: string, port: number, path: string, mark: string): Promise<Result> {
  if (port === 0) {
    return skipped(`${variable} is 0`);
  }
  // `::` accepts IPv4 as well, and a container may have no IPv6.
  const reachable = ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host;
  const address = `${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
  try {
    const response = await fetch(`http://${address}${path}`, { signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS) });
    if ((await response.text()).includes(mark)) {
      return ok(`the service listens on ${address}`);
    }
  } catch (failure) {
    if (((failure as Error).cause as { code?: string } | undefined)?.code === 'ECONNREFUSED') {
      return ok(`nothing listens on ${address}`);
    }
  }
  const remedy = `Set ${variable} to a free port, or stop the other program (find it with "ss -ltnp").`;
  return error(`another program listens on ${address}`, remedy);
}
