import { setTimeout as delay } from 'node:timers/promises';
import type { LoggerService } from '@nestjs/common';
import { type DestinationStream, type Level, type LevelWithSilent, type Logger, pino } from 'pino';
import { BoundedOutput } from './bounded-output.js';

/** Injection token of the pino logger for single requests: its lines carry the request id. */
export const REQUEST_LOGGER = Symbol('request logger');

/** How long the reader of the log may take for the last lines. Milliseconds. */
const LAST_LINES_MS = 1_000;

/** JSON lines on stdout; human-readable lines on a terminal. */
export async function createLogger(level: LevelWithSilent): Promise<Logger> {
  const stream = process.stdout.isTTY ? await readableLines() : collectedLines();
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream);
}

/** Writes the last lines. Resolves when their reader has taken them, or after a second. */
export async function endLog(logger: Logger): Promise<void> {
  const taken = new Promise((resolve) => {
    logger.flush(resolve);
  });
  await Promise.race([taken, delay(LAST_LINES_MS)]);
}

function collectedLines(): DestinationStream {
  const output = new BoundedOutput(process.stdout);
  // Also after an uncaught exception. Writing to a file or a pipe is synchronous.
  process.once('exit', () => {
    output.flush();
  });
  return output;
}

/** Imported on demand: in production stdout is no terminal. */
async function readableLines(): Promise<DestinationStream> {
  const { default: pretty } = await import('pino-pretty');
  return pretty({ colorize: true, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss.l' });
}

/** The names of Nest's classes. The bundle may have some with a leading underscore. */
const FRAMEWORK_CONTEXT = /^_?(?:NestFactory|InstanceLoader|RoutesResolver|RouterExplorer|NestApplication)$/;

/** Passes the log lines of Nest and of this service to pino. The last argument of each call is the logger's context. */
export class PinoLogger implements LoggerService {
  constructor(private readonly logger: Logger) {}

  log(message: unknown, ...rest: unknown[]): void {
    // Nest's lines about its own wiring are for debugging.
    this.#write(FRAMEWORK_CONTEXT.test(String(rest.at(-1))) ? 'debug' : 'info', message, rest);
  }

  readonly error = this.#writer('error');
  readonly warn = this.#writer('warn');
  readonly debug = this.#writer('debug');
  readonly verbose = this.#writer('trace');
  readonly fatal = this.#writer('fatal');

  #writer(level: Level): (message: unknown, ...rest: unknown[]) => void {
    return (message, ...rest) => {
      this.#write(level, message, rest);
    };
  }

  #write(level: Level, message: unknown, rest: unknown[]): void {
    const context = rest.at(-1);
    const detail = rest.length > 1 ? rest[0] : undefined;
    this.logger[level](
      { ...(typeof context === 'string' ? { context } : {}), ...(detail === undefined ? {} : { detail }) },
      message instanceof Error ? (message.stack ?? message.message) : String(message),
    );
  }
}
