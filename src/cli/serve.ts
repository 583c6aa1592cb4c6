import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Logger } from 'pino';
import { createApp } from '../app.setup.js';
import type { Config } from '../config/config.js';
import { ConfigurationError } from '../config/config.js';
import { loadConfig } from '../config/load-config.js';
import { HealthService } from '../health/health.service.js';
import { type ServiceHttpAdapter } from '../server/service-http-adapter.js';
import { Metrics } from '../metrics/metrics.js';
import { serveMetrics } from '../server/metrics-server.js';
import { createLogger, PinoLogger } from '../logging/pino-logger.js';
import type { OpenTelemetry } from '../tracing/open-telemetry.js';

/** What runs besides the application and ends after it. */
interface RunningDatabase {
  readonly config: Config;
  /** Of the demo data alone: whoever opens the documentation can use it. */
  readonly demoKey?: string | undefined;
  announce(baseUrl: string): void;
  stop(): Promise<void>;
}

/**
 * Runs the service until it is told to stop (SIGTERM, SIGINT).
 * @throws {ConfigurationError} before anything has started, or when a port is taken
 */
export async function serve(): Promise<void> {
  const config = loadConfig(process.env);
  // Registered first: a stop that is asked for while things start is carried out once they have.
  const stopRequested = new Promise<void>((resolve) => {
    process.once('SIGTERM', resolve).once('SIGINT', resolve);
  });
  const logger = createLogger(config.logLevel);
  const tracing = config.tracing ? await startTracing(logger) : undefined;
  const backing = config.databaseUrl === undefined ? await startEmbedded(config) : external(config);
  let app: NestExpressApplication | undefined;
  let metricsServer: Server | undefined;
  try {
    app = await createApp(backing.config, {
      logger: new PinoLogger(logger),
      requestLogger: logger,
      tracing,
      demoKey: backing.demoKey,
    });
    await app.listen(config.port, config.host).catch(nameTakenPort('PORT'));
    metricsServer =
      config.metricsPort === 0
        ? undefined
        : await serveMetrics(app.get(Metrics).registry, config.host, config.metricsPort).catch(
            nameTakenPort('METRICS_PORT'),
          );
    const { port } = app.getHttpServer().address() as AddressInfo;
    const host = config.host.includes(':') ? `[${config.host}]` : config.host;
    logger.info({ host: config.host, port }, 'listening');
    backing.announce(`http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`);
    await stopRequested;
    logger.info('stopping');
    await shutDown(app, config);
    logger.info('stopped');
  } catch (error) {
    await app?.close();
    throw error;
  } finally {
    metricsServer?.closeAllConnections();
    metricsServer?.close();
    await backing.stop();
    await tracing?.stop();
    logger.flush();
  }
}

/** Turns the failure to listen into one that says which variable to change. */
function nameTakenPort(variable: string): (error: unknown) => never {
  return (error) => {
    const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
    throw code === 'EADDRINUSE'
      ? new ConfigurationError([`${variable} must be a free port: another process listens on ${address}:${port}`])
      : error;
  };
}

/**
 * Calls itself unready and goes on answering until balancers have noticed; then finishes what is under way, cuts what
 * outlasts the grace period, and closes the pools last.
 */
async function shutDown(app: NestExpressApplication, config: Config): Promise<void> {
  app.get(HealthService).startDraining();
  (app.getHttpAdapter() as ServiceHttpAdapter).startDraining();
  await delay(config.shutdownDelaySeconds * 1_000);
  const server = app.getHttpServer();
  const deadline = setTimeout(() => {
    server.closeAllConnections();
  }, config.shutdownGraceSeconds * 1_000);
  await app.close();
  clearTimeout(deadline);
}

/** Loaded only when it is used, so that it costs nothing when it is not. */
async function startTracing(logger: Logger): Promise<OpenTelemetry> {
  const { OpenTelemetry } = await import('../tracing/open-telemetry.js');
  return new OpenTelemetry(logger);
}

function external(config: Config): RunningDatabase {
  return { config, announce: () => undefined, stop: () => Promise.resolve() };
}

/** Loaded only when it is used: the embedded database is not there in production. */
async function startEmbedded(config: Config): Promise<RunningDatabase> {
  const { startEmbeddedDatabase } = await import('../embedded/embedded-service.js');
  const { prepareDemo } = await import('../embedded/demo.js');
  const { demoBanner } = await import('../embedded/banner.js');
  const database = await startEmbeddedDatabase();
  try {
    const keys = await prepareDemo(database.url);
    return {
      config: { ...config, databaseUrl: database.url },
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
