import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Logger } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { createApp } from './app.setup.js';
import type { EmbeddedDatabase } from './cli/embedded/embedded-database.js';
import { asError } from './common/as-error.js';
import { redactKeys } from './common/redact-keys.js';
import { type Config, loadConfig } from './config/config.js';
import { checkServer } from './database/check-server.js';
import { serveMetrics } from './http/metrics-server.js';
import { createLogger } from './logging/create-logger.js';
import { NestLogger } from './logging/nest-logger.js';
import { Metrics } from './metrics/metrics.js';

/**
 * Runs the service until `stop` aborts. During the start, that ends the start after its current step, of which none takes long.
 * @throws {ConfigurationError} when a variable is invalid, before anything starts
 * @throws {Error} that names the address of a port that is taken
 * @throws the reason of `stop`
 */
async function serve(stop: AbortController): Promise<never> {
  const config = loadConfig(process.env);
  const stopped = once(stop.signal, 'abort');
  const log = await createLogger(config.logLevel);
  const logger = new NestLogger(log);
  Logger.overrideLogger(logger);
  let stopTracing: (() => Promise<void>) | undefined;
  let embedded: EmbeddedDatabase | undefined;
  try {
    if (config.tracing) {
      // Imported on demand: without tracing it would only cost time and memory.
      const { startTracing } = await import('./tracing/open-telemetry.js');
      stopTracing = startTracing();
    }
    await checkServer(config);
    stop.signal.throwIfAborted();
    if (config.databaseUrl === undefined) {
      // Imported on demand: production does not have the embedded database.
      const { startEmbeddedDatabase } = await import('./cli/embedded/embedded-database.js');
      embedded = await startEmbeddedDatabase(stop);
    }
    const app = await createApp(
      { ...config, databaseUrl: config.databaseUrl ?? embedded?.url },
      { logger, requestLog: log.isLevelEnabled('info') ? log.info.bind(log) : undefined, demoKey: embedded?.demoKey },
    );
    stop.signal.throwIfAborted();
    await listen(app, config);
    logger.log('listening', { host: config.host, port: (app.getHttpServer().address() as AddressInfo).port });
    if (embedded !== undefined) {
      log.flush();
      process.stdout.write(embedded.banner(await app.getUrl(), config.docsEnabled));
    }
    await stopped;
    logger.log('stopping');
    await app.close();
    logger.log('stopped');
    throw stop.signal.reason;
  } finally {
    await embedded?.stop();
    await stopTracing?.();
  }
}

async function listen(app: NestExpressApplication, config: Config): Promise<void> {
  await app.listen(config.port, config.host);
  if (config.metricsPort !== 0) {
    const respond = app.getHttpAdapter().getInstance() as RequestListener;
    await serveMetrics(app.get(Metrics).registry, respond, config.host, config.metricsPort);
  }
}

const stop = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
  // Later signals change nothing: they would cut in-flight requests.
  process.on(signal, () => {
    stop.abort(signal);
  });
}
try {
  await serve(stop);
} catch (error) {
  // The name of a signal is no error.
  if (error !== stop.signal.reason || error instanceof Error) {
    process.stderr.write(redactKeys(`error: ${asError(error).message}\n`));
    process.exitCode = 1;
  }
}
// Explicit: at an end by itself Node removes its signal handlers first, and a late signal would end the process instead.
process.exit();
