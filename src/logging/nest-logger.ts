import { inspect } from 'node:util';
import type { LoggerService } from '@nestjs/common';
import type pino from 'pino';

/** The names of Nest's classes that report its own wiring. The bundle may have some with a leading underscore. */
const WIRING = /^_?(?:NestFactory|InstanceLoader|RoutesResolver|RouterExplorer|NestApplication)$/;

/** Lets Nest and the `Logger`s of the service log through pino. */
export class NestLogger implements LoggerService {
  constructor(private readonly logger: pino.Logger) {}

  log(message: unknown, ...params: unknown[]): void {
    // Nest's lines about its own wiring are for debugging.
    this.#write(WIRING.test(String(params.at(-1))) ? 'debug' : 'info', message, params);
  }

  fatal(message: unknown, ...params: unknown[]): void {
    this.#write('fatal', message, params);
  }

  error(message: unknown, ...params: unknown[]): void {
    this.#write('error', message, params);
  }

  warn(message: unknown, ...params: unknown[]): void {
    this.#write('warn', message, params);
  }

  debug(message: unknown, ...params: unknown[]): void {
    this.#write('debug', message, params);
  }

  verbose(message: unknown, ...params: unknown[]): void {
    this.#write('trace', message, params);
  }

  /** @param params fields, the stack of an error, and last the context if it is known: Nest passes them in this order */
  #write(level: pino.Level, message: unknown, params: readonly unknown[]): void {
    const texts = params.filter((param) => typeof param === 'string');
    const [error] = [message, ...params].filter((param) => param instanceof Error);
    const fields = params.filter((param) => typeof param === 'object' && !(param instanceof Error));
    const text = message instanceof Error ? message.message : message;
    this.logger[level](
      Object.assign({ context: texts.at(-1), detail: texts.length > 1 ? texts[0] : error?.stack }, ...fields),
      typeof text === 'string' ? text : inspect(text),
    );
  }
}
