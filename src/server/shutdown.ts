import { setTimeout as delay } from 'node:timers/promises';
import { isatty } from 'node:tty';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Config } from '../config/config.js';
import { HealthService } from '../health/health.js';
import type { ServiceHttpAdapter } from './service-http-adapter.js';

const STDIN = 0;
/** Copies of one Ctrl-C arrive within this time. */
const SAME_INTERRUPT_MS = 200;
const INTERRUPTS_TO_EXIT = 3;
/** 128 + SIGINT, as a shell reports it. */
const EXIT_INTERRUPTED = 130;

/**
 * Aborts on the first signal to stop and ignores the later ones, which would cut in-flight requests. Only the third
 * Ctrl-C ends the process at once; the embedded PostgreSQL ends with it.
 */
export function stopOnSignals(): AbortSignal {
  const controller = new AbortController();
  const stop = (): void => {
    controller.abort();
  };
  let [interrupts, lastInterrupt] = [0, -Infinity];
  process
    .on('SIGTERM', stop)
    .on('SIGHUP', stop)
    .on('SIGINT', () => {
      stop();
      // The terminal sends one to each process of its group, and npm and nest forward theirs.
      if (performance.now() - lastInterrupt > SAME_INTERRUPT_MS) {
        interrupts++;
        lastInterrupt = performance.now();
      }
      if (interrupts === INTERRUPTS_TO_EXIT && isatty(STDIN)) {
        process.exit(EXIT_INTERRUPTED);
      }
    });
  return controller.signal;
}

/**
 * Reports unready and keeps responding until load balancers have noticed; then completes in-flight requests, cuts those
 * that outlast the grace period, and closes the pools last.
 */
export async function shutDown(app: NestExpressApplication, config: Config): Promise<void> {
  app.get(HealthService).startDraining();
  const { connections } = app.getHttpAdapter() as ServiceHttpAdapter;
  connections.startDraining();
  await delay(config.shutdownDelaySeconds * 1_000);
  const deadline = setTimeout(() => {
    app.getHttpServer().closeAllConnections();
  }, config.shutdownGraceSeconds * 1_000);
  await app.close();
  clearTimeout(deadline);
}
