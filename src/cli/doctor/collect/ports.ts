import type { Config } from '../../../config/config.js';
import type { ConfigurationFacts, Known, PortFacts } from '../facts.js';

const RESPONSE_TIMEOUT_MS = 3_000;

/** Finds out by a request what listens on the port of the service. Opens no port. */
export async function collectPort({ config, invalid }: ConfigurationFacts): Promise<Known<PortFacts>> {
  if (invalid.has('PORT') || invalid.has('HOST')) {
    return { reason: `${invalid.has('PORT') ? 'PORT' : 'HOST'} is invalid` };
  }
  return probe(config, config.port, '/health/ready', (status, body) => {
    if (status === 200 && body.includes('"status":"ok"')) {
      return 'service';
    }
    return status === 503 && body.includes('"service_unavailable"') ? 'unready service' : 'other';
  });
}

export async function collectMetricsPort({ config, invalid }: ConfigurationFacts): Promise<Known<PortFacts>> {
  if (invalid.has('METRICS_PORT')) {
    return { reason: 'METRICS_PORT is invalid' };
  }
  if (config.metricsPort === 0) {
    return { reason: 'METRICS_PORT is 0, so no metrics are served' };
  }
  return probe(config, config.metricsPort, '/metrics', (status, body) =>
    status === 200 && body.includes('petstore_') ? 'service' : 'other',
  );
}

async function probe(
  { host }: Config,
  port: number,
  path: string,
  listenerOf: (status: number, body: string) => PortFacts['listener'],
): Promise<Known<PortFacts>> {
  const reachable = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
  const address = `${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
  if (port === 0) {
    return { reason: 'PORT is 0, which stands for any free port' };
  }
  try {
    const response = await fetch(`http://${address}${path}`, { signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS) });
    return { value: { address, listener: listenerOf(response.status, await response.text()) } };
  } catch (error) {
    const cause = (error as Error).cause as { code?: string } | undefined;
    return { value: { address, listener: cause?.code === 'ECONNREFUSED' ? 'none' : 'other' } };
  }
}
