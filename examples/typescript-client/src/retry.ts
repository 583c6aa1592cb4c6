import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from './errors.ts';

export interface RetryOptions {
  /** How often a request is sent at most, the first time included. */
  readonly attempts: number;
  /** Upper bound of the first random wait; it doubles with every attempt. Milliseconds. */
  readonly baseDelayMs: number;
  /** Upper bound of every random wait. Milliseconds. */
  readonly maxDelayMs: number;
  /** A `Retry-After` beyond this is not waited for: the error is the caller's to plan with. Seconds. */
  readonly maxRetryAfterSeconds: number;
  /** From 0 to 1; replaced by tests. */
  readonly random: () => number;
  /** Rejects as soon as the signal is aborted; replaced by tests. */
  readonly sleep: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
}

export const DEFAULT_RETRY: RetryOptions = {
  attempts: 5,
  baseDelayMs: 500,
  maxDelayMs: 30_000,
  maxRetryAfterSeconds: 120,
  random: Math.random,
  sleep: (milliseconds, signal) => delay(milliseconds, undefined, signal === undefined ? {} : { signal }),
};

/**
 * Sends a request again while it is refused for now (429, 503) or the connection fails. Waits for `Retry-After` first, and
 * on top of it by exponential backoff with full jitter, so that clients that were refused together do not come back
 * together. Every other error is final, and so is an abort.
 */
export async function withRetries<T>(
  send: () => Promise<T>,
  options: RetryOptions,
  signal: AbortSignal | undefined,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send();
    } catch (error) {
      signal?.throwIfAborted();
      if (attempt >= options.attempts || !isWorthAnotherTry(error, options)) {
        throw error;
      }
      const retryAfterMs = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
      const backoffMs = options.random() * Math.min(options.maxDelayMs, options.baseDelayMs * 2 ** (attempt - 1));
      await options.sleep(retryAfterMs + backoffMs, signal);
    }
  }
}

function isWorthAnotherTry(error: unknown, { maxRetryAfterSeconds }: RetryOptions): boolean {
  if (error instanceof ApiError) {
    const isForNow = error.status === 429 || error.status === 503;
    return isForNow && (error.retryAfterSeconds ?? 0) <= maxRetryAfterSeconds;
  }
  // `fetch` rejects with a TypeError when there is no answer: refused, reset, timed out.
  return (error as Partial<Error>).name === 'TypeError';
}
