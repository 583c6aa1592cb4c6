import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Logger } from 'pino';
import { redactKeys } from './api-keys/key-format.js';
import { createApp } from './app.setup.js';
import type { EmbeddedDatabase } from './cli/embedded/embedded-database.js';
import { asError } from './common/as-error.js';
import { type Config, ConfigurationError, loadConfig } from './config/config.js';
import { checkServer } from './database/check-server.js';
import { createLogger, endLog, PinoLogger } from './logging/pino-logger.js';
import { Metrics } from './metrics/metrics.js';
import { serveMetrics } from './server/metrics-server.js';
import { shutDown, stopOnSignals } from './server/shutdown.js';
import type { OpenTelemetry } from './tracing/open-telemetry.js';

/** What {@link serve} has started and must stop. */
interface Parts {
  tracing?: OpenTelemetry;
  embedded?: EmbeddedDatabase;
  app?: NestExpressApplication;
}

/**
 * Runs the service until SIGTERM, SIGINT or SIGHUP. A signal during the start ends the start after its current step.
 * @throws {ConfigurationError} when a variable is invalid (before anything starts) or a port is taken
 * @throws {Error} when the embedded database has ended
 */
async function serve(): Promise<void> {
  const config = loadConfig(process.env);
  const stop = stopOnSignals();
  const logger = await createLogger(config.logLevel);
  const parts: Parts = {};
  let lost: Error | undefined;
  try {
    const app = await start(parts, config, logger, stop);
    if (!stop.aborted) {
      const signal = once(stop, 'abort').then(() => undefined);
      lost = await Promise.race([signal, ...(parts.embedded === undefined ? [] : [parts.embedded.lost])]);
    }
    logger.info('stopping');
    await shutDown(app, config);
    logger.info('stopped');
  } catch (error) {
    await parts.app?.close();
    if (error !== stop.reason) {
      throw error;
    }
  } finally {
    await parts.embedded?.stop();
    await parts.tracing?.stop();
    await endLog(logger);
  }
  if (lost !== undefined) {
    throw lost;
  }
}

async function start(parts: Parts, config: Config, logger: Logger, stop: AbortSignal): Promise<NestExpressApplication> {
  if (config.tracing) {
    // Imported on demand: without tracing it would only cost time and memory.
    const { OpenTelemetry } = await import('./tracing/open-telemetry.js');
    parts.tracing = new OpenTelemetry(logger);
  }
  await checkServer(config);
  if (config.databaseUrl === undefined) {
    // Imported on demand: production does not have the embedded database.
    const { startEmbeddedDatabase } = await import('./cli/embedded/embedded-database.js');
    parts.embedded = await startEmbeddedDatabase(stop);
  }
  const { tracing, embedded } = parts;
  const database = embedded === undefined ? {} : { databaseUrl: embedded.url };
  const options = { logger: new PinoLogger(logger), requestLogger: logger, tracing, demoKey: embedded?.demoKey };
  const app = await createApp({ ...config, ...database }, options);
  parts.app = app;
  stop.throwIfAborted();
  await app.listen(config.port, config.host).catch(explainTakenPort('PORT'));
  if (config.metricsPort !== 0) {
    const { registry } = app.get(Metrics);
    await serveMetrics(registry, config.host, config.metricsPort).catch(explainTakenPort('METRICS_PORT'));
  }
  const { port } = app.getHttpServer().address() as AddressInfo;
  logger.info({ host: config.host, port }, 'listening');
  if (embedded !== undefined) {
    const host = config.host.includes(':') ? `[${config.host}]` : config.host;
    const baseUrl = `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`;
    logger.flush();
    process.stdout.write(embedded.banner(baseUrl, config.docsEnabled));
  }
  return app;
}

/** Names the variable to change when the port is taken. */
function explainTakenPort(variable: string): (error: unknown) => never {
  return (error) => {
    const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
    throw code === 'EADDRINUSE'
      ? new ConfigurationError([`${variable} must be a free port: another process listens on ${address}:${port}`])
      : error;
  };
}

try {
  await serve();
} catch (error) {
  process.stderr.write(redactKeys(`error: ${asError(error).message}\n`));
  process.exitCode = 1;
}
// Not an end by itself, in which Node removes its signal handlers first: a late signal would end the process instead.
process.exit();
