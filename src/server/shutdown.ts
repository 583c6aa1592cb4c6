import { setTimeout as delay } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Config } from '../config/config.js';
import { HealthService } from '../health/health.js';
import type { ServiceHttpAdapter } from './service-http-adapter.js';

/**
 * Aborts on the first signal to stop, with its name as the reason, and ignores the later ones, which would cut in-flight
 * requests.
 */
export function stopOnSignals(): AbortController {
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    process.on(signal, () => {
      stop.abort(signal);
    });
  }
  return stop;
}

/**
 * Reports unready and keeps responding until load balancers have noticed; then completes in-flight requests, cuts those
 * that outlast the grace period, and closes the pools last.
 */
export async function shutDown(app: NestExpressApplication, config: Config): Promise<void> {
  app.get(HealthService).startDraining();
  (app.getHttpAdapter() as ServiceHttpAdapter).connections.startDraining();
  await delay(config.shutdownDelaySeconds * 1_000);
  const deadline = setTimeout(() => {
    app.getHttpServer().closeAllConnections();
  }, config.shutdownGraceSeconds * 1_000);
  await app.close();
  clearTimeout(deadline);
}
