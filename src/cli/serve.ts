import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Logger } from 'pino';
import { createApp } from '../app.setup.js';
import type { Config } from '../config/config.js';
import { ConfigurationError } from '../config/config.js';
import { loadConfig } from '../config/load-config.js';
import { checkServer } from '../database/check-server.js';
import { Metrics } from '../metrics/metrics.js';
import { serveMetrics } from '../server/metrics-server.js';
import { createLogger, PinoLogger } from '../logging/pino-logger.js';
import type { OpenTelemetry } from '../tracing/open-telemetry.js';
import { shutDown, stopOnSignals } from './shutdown.js';

/** The database of the service, started and stopped with it when it is the embedded one. */
interface ServiceDatabase {
  readonly config: Config;
  /** A key of the demo data, prefilled in Swagger UI. */
  readonly demoKey?: string;
  announce(baseUrl: string): void;
  stop(): Promise<void>;
}

/**
 * Runs the service until SIGTERM, SIGINT or SIGHUP. A signal during the start ends the start after its current step.
 * @throws {ConfigurationError} when a variable is invalid (before anything starts) or a port is taken
 */
export async function serve(): Promise<void> {
  const config = loadConfig(process.env);
  const stop = stopOnSignals();
  const logger = await createLogger(config.logLevel);
  const tracing = config.tracing ? await startTracing(logger) : undefined;
  let database: ServiceDatabase | undefined;
  let app: NestExpressApplication | undefined;
  let metricsServer: Server | undefined;
  try {
    await checkServer(config);
    database = config.databaseUrl === undefined ? await startEmbedded(config, stop) : external(config);
    app = await createApp(database.config, {
      logger: new PinoLogger(logger),
      requestLogger: logger,
      tracing,
      demoKey: database.demoKey,
    });
    stop.throwIfAborted();
    await app.listen(config.port, config.host).catch(explainTakenPort('PORT'));
    metricsServer =
      config.metricsPort === 0
        ? undefined
        : await serveMetrics(app.get(Metrics).registry, config.host, config.metricsPort).catch(
            explainTakenPort('METRICS_PORT'),
          );
    const { port } = app.getHttpServer().address() as AddressInfo;
    const host = config.host.includes(':') ? `[${config.host}]` : config.host;
    logger.info({ host: config.host, port }, 'listening');
    database.announce(`http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`);
    if (!stop.aborted) {
      await once(stop, 'abort');
    }
    logger.info('stopping');
    await shutDown(app, config);
    logger.info('stopped');
  } catch (error) {
    await app?.close();
    if (error !== stop.reason) {
      throw error;
    }
  } finally {
    metricsServer?.closeAllConnections();
    metricsServer?.close();
    await database?.stop();
    await tracing?.stop();
    logger.flush();
  }
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

/** Imported on demand: without tracing it would only cost time and memory. */
async function startTracing(logger: Logger): Promise<OpenTelemetry> {
  const { OpenTelemetry } = await import('../tracing/open-telemetry.js');
  return new OpenTelemetry(logger);
}

function external(config: Config): ServiceDatabase {
  return { config, announce: () => undefined, stop: () => Promise.resolve() };
}

/** Imported on demand: production does not have the embedded database. */
async function startEmbedded(config: Config, stop: AbortSignal): Promise<ServiceDatabase> {
  const { startEmbeddedDatabase } = await import('../embedded/embedded-service.js');
  const { demoBanner, prepareDemo } = await import('../embedded/demo.js');
  const database = await startEmbeddedDatabase(stop);
  try {
    const keys = await prepareDemo(database.url);
    return {
      config: { ...config, databaseUrl: database.url, databaseDirectUrl: undefined },
      demoKey: keys.free,
      announce: (baseUrl) => {
        process.stdout.write(demoBanner(baseUrl, keys, config.docsEnabled));
      },
      stop: () => database.stop(),
    };
  } catch (error) {
    await database.stop();
    throw error;
  }
}
