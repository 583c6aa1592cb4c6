import { statfs } from 'node:fs/promises';
import { openFilesProblem } from '../../common/open-files.js';
import { PROJECT_ROOT } from '../../common/project-root.js';
import type { Config } from '../../config/config.js';
import { EMBEDDED_FOLDER } from '../embedded/embedded-database.js';
import { error, ok, type Result, type Results, skipped, warning } from './check.js';

const RESPONSE_TIMEOUT_MS = 3_000;
/** PostgreSQL ends when it cannot write its log. */
const FREE_MIN_MIB = 1_024;

/** Checks the limits of this process, the ports of the service, and the disk of the embedded database. */
export async function checkHost({ databaseUrl, host, port, metricsPort, connectionsMax }: Config): Promise<Results> {
  return {
    ...(databaseUrl === undefined ? { disk: await checkDisk() } : {}),
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

async function checkDisk(): Promise<Result> {
  // The folder is missing before the first start.
  const { bavail, bsize } = await statfs(EMBEDDED_FOLDER).catch(() => statfs(PROJECT_ROOT));
  return diskResult(Math.floor((bavail * bsize) / 1_048_576));
}

/** @param freeMib what an ordinary user may still write; MiB */
export function diskResult(freeMib: number): Result {
  const found = `${freeMib} MiB free for .data/`;
  return freeMib >= FREE_MIN_MIB
    ? ok(found)
    : warning(found, 'Free disk space: PostgreSQL stops when the disk is full.');
}

/** Finds out by a request whether the service or another program listens. Opens no port. */
async function checkPort(variable: string, host: string, port: number, path: string, mark: string): Promise<Result> {
  if (port === 0) {
    return skipped(`${variable} is 0`);
  }
  const reachable = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
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
