import { setTimeout as delay } from 'node:timers/promises';
import { ConsoleLogger } from '@nestjs/common';
import { BoundedOutput } from './bounded-output.js';

/** Injection token of the {@link RequestLog}. */
export const REQUEST_LOG = Symbol('request log');

/** Takes the log line of each request; null when requests are not logged. */
export type RequestLog = ((line: string) => void) | null;

/** The levels of Nest as numbers. */
export const LEVELS = { fatal: 60, error: 50, warn: 40, log: 30, debug: 20, verbose: 10 } as const;
/** How Nest calls the levels of `LOG_LEVEL`. */
const NAMES = { fatal: 'fatal', error: 'error', warn: 'warn', info: 'log', debug: 'debug', trace: 'verbose' } as const;

/** How long the reader of the log may take for the last lines. Milliseconds. */
const LAST_LINES_MS = 1_000;

/** The names of Nest's classes. The bundle may have some with a leading underscore. */
const FRAMEWORK_CONTEXT = /^_?(?:NestFactory|InstanceLoader|RoutesResolver|RouterExplorer|NestApplication)$/;

/** Nest's logger, with JSON lines of our own unless stdout is a terminal. */
export class JsonLogger extends ConsoleLogger {
  readonly #output = new BoundedOutput(process.stdout);
  readonly requestLog: RequestLog;

  constructor(level: keyof typeof NAMES | 'silent') {
    super({ json: !process.stdout.isTTY, prefix: 'petstore', logLevels: level === 'silent' ? [] : [NAMES[level]] });
    this.requestLog = this.isLevelEnabled('log') ? this.#output.write.bind(this.#output) : null;
    // Also after an uncaught exception. Writing to a file or a pipe is synchronous.
    process.once('exit', () => {
      this.flush();
    });
  }

  override log(message: unknown, ...rest: unknown[]): void {
    // Nest's lines about its own wiring are for debugging.
    if (FRAMEWORK_CONTEXT.test(String(rest.at(-1)))) {
      super.debug(message, ...rest);
    } else {
      super.log(message, ...rest);
    }
  }

  protected override printAsJson(msg: unknown, options: Parameters<ConsoleLogger['printAsJson']>[1]): void {
    const { logLevel, context, errorStack, error, params } = options;
    const time = new Date().toISOString();
    const detail = errorStack ?? error?.stack;
    const line = { level: LEVELS[logLevel], time, context: context || undefined, detail, ...params, msg };
    this.#output.write(`${this.stringifyJsonLogObject(line)}\n`);
  }

  flush(done?: () => void): void {
    this.#output.flush(done);
  }

  /** Writes the last lines. Resolves when their reader has taken them, or after a second. */
  async end(): Promise<void> {
    const taken = new Promise<void>((resolve) => {
      this.flush(resolve);
    });
    await Promise.race([taken, delay(LAST_LINES_MS)]);
  }
}
