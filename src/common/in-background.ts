import { Logger } from '@nestjs/common';
import { asError } from './as-error.js';

const logger = new Logger('Background');

/** Lets a task end by itself. Its error is logged: an unhandled rejection would end the process. */
export function inBackground(task: Promise<unknown>): void {
  task.catch(logBackgroundError);
}

/** Logs an error that concerns no caller. Never throws: it runs where an error would end the process. */
export function logBackgroundError(error: unknown): void {
  try {
    logger.error('background task failed', asError(error).stack);
  } catch {
    // Nothing is left that it could be reported to.
  }
}
