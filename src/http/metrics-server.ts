import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Registry } from 'prom-client';
import { DomainError } from '../errors/domain-error.js';
import { pathOf } from './paths.js';
import { sendError, setDefaultHeaders } from './response.js';

const CONNECTIONS_MAX = 100;

/**
 * Serves `/metrics` on a separate port, so that the public port never exposes it, and there also the paths of the health check: probes are
 * answered when `MAX_CONNECTIONS` are open on the public port.
 * @param app responds to `/health/`
 * @throws {Error} (by rejection) when the port is taken
 */
export async function serveMetrics(
  registry: Registry,
  app: RequestListener,
  host: string,
  port: number,
): Promise<Server> {
  const server = createServer((req, res) => {
    // Some scrapers add parameters.
    const path = pathOf(req.url ?? '');
    if (path.startsWith('/health/')) {
      app(req, res);
      return;
    }
    setDefaultHeaders(res);
    if (path !== '/metrics') {
      sendError(res, new DomainError('route_not_found', 'Metrics are at /metrics.'));
      return;
    }
    registry.metrics().then(
      (text) => {
        res.setHeader('Content-Type', registry.contentType);
        res.end(text);
      },
      () => {
        sendError(res, new DomainError('internal_error', 'The metrics could not be collected.'));
      },
    );
  });
  // For clients that send nothing; a scraper needs one or two.
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(port, host);
  await once(server, 'listening');
  return server;
}
