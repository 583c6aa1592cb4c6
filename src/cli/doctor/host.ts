import { access, constants, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { asError } from '../../common/as-error.js';
import type { Configuration } from './configuration.js';
import { error, type Finding, type Findings, notChecked, ok, warning } from './finding.js';

const RESPONSE_TIMEOUT_MS = 3_000;
const MEBIBYTE = 1_048_576;
const WARNING_BYTES = 1_024 * MEBIBYTE;
const ERROR_BYTES = 100 * MEBIBYTE;

/** Checks the ports of the service and the disk of the embedded database. */
export async function checkHost(configuration: Configuration): Promise<Findings> {
  const [port, metricsPort, disk] = await Promise.all([
    checkPort(configuration),
    checkMetricsPort(configuration),
    checkDisk(configuration),
  ]);
  return { port, 'metrics port': metricsPort, disk };
}

async function checkPort({ config, invalid }: Configuration): Promise<Finding> {
  if (invalid.has('PORT') || invalid.has('HOST')) {
    return notChecked(`${invalid.has('PORT') ? 'PORT' : 'HOST'} is invalid`);
  }
  if (config.port === 0) {
    return notChecked('PORT is 0, which stands for any free port');
  }
  return probe('PORT', config.host, config.port, '/health/ready', (status, body) => {
    if (status === 200 && body.includes('"status":"ok"')) {
      return 'service';
    }
    return status === 503 && body.includes('"service_unavailable"') ? 'unready service' : 'other';
  });
}

async function checkMetricsPort({ config, invalid }: Configuration): Promise<Finding> {
  if (invalid.has('METRICS_PORT')) {
    return notChecked('METRICS_PORT is invalid');
  }
  if (config.metricsPort === 0) {
    return notChecked('METRICS_PORT is 0, so no metrics are served');
  }
  return probe('METRICS_PORT', config.host, config.metricsPort, '/metrics', (status, body) =>
    status === 200 && body.includes('petstore_') ? 'service' : 'other',
  );
}

type Listener = 'none' | 'service' | 'unready service' | 'other';

/** Finds out by a request what listens on a port. Opens no port. */
async function probe(
  variable: string,
  host: string,
  port: number,
  path: string,
  listenerOf: (status: number, body: string) => Listener,
): Promise<Finding> {
  const reachable = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
  const address = `${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
  try {
    const response = await fetch(`http://${address}${path}`, { signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS) });
    return portFinding(variable, address, listenerOf(response.status, await response.text()));
  } catch (failure) {
    const cause = (failure as Error).cause as { code?: string } | undefined;
    return portFinding(variable, address, cause?.code === 'ECONNREFUSED' ? 'none' : 'other');
  }
}

export function portFinding(variable: string, address: string, listener: Listener): Finding {
  switch (listener) {
    case 'none':
      return ok(`nothing listens on ${address}`);
    case 'service':
      return ok(`the service listens on ${address}`);
    case 'unready service':
      return warning(
        `the service on ${address} is not ready`,
        'Its database does not respond within a second, or it is stopping; read its log.',
      );
    case 'other':
      return error(
        `another program listens on ${address}`,
        `Set ${variable} to a free port, or stop the other program (find it with "ss -ltnp").`,
      );
  }
}

/** Checks the file system that holds, or will hold, the embedded database. */
async function checkDisk({ config, invalid }: Configuration): Promise<Finding> {
  if (config.databaseUrl !== undefined || invalid.has('DATABASE_URL')) {
    return notChecked('the database is not the embedded one');
  }
  const { EMBEDDED_FOLDER } = await import('../embedded/embedded-database.js');
  // The first start creates the folder.
  return checkFolder(EMBEDDED_FOLDER)
    .catch(() => checkFolder(dirname(EMBEDDED_FOLDER)))
    .catch((failure: unknown) => notChecked(asError(failure).message));
}

async function checkFolder(folder: string): Promise<Finding> {
  const { bavail, bsize } = await statfs(folder);
  const isWritable = await access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
  return diskFinding(folder, bavail * bsize, isWritable);
}

export function diskFinding(folder: string, freeBytes: number, isWritable: boolean): Finding {
  if (!isWritable) {
    return error(`${folder} is not writable`, 'Make it writable for this user: the embedded database is stored there.');
  }
  const message = `${Math.floor(freeBytes / MEBIBYTE).toLocaleString('en')} MiB free for the embedded database`;
  const remedy = `Free disk space for ${folder}: PostgreSQL stops when the disk is full.`;
  if (freeBytes < WARNING_BYTES) {
    return freeBytes < ERROR_BYTES ? error(`only ${message}`, remedy) : warning(`only ${message}`, remedy);
  }
  return ok(message);
}
