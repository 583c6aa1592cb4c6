import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from './errors.ts';

export interface RetryOptions {
  /** The maximum number of times a request is sent, including the first. */
  readonly attempts: number;
  /** Upper bound of the first random wait; it doubles with every attempt. Milliseconds. */
  readonly baseDelayMs: number;
  /** Upper bound of every random wait. Milliseconds. */
  readonly maxDelayMs: number;
  /** With a longer `Retry-After`, the error is thrown instead of waiting. Seconds. */
  readonly maxRetryAfterSeconds: number;
  /** Milliseconds since 1970; replaced by tests. */
  readonly now: () => number;
  /** From 0 to 1; replaced by tests. */
  readonly random: () => number;
  /** Rejects when the signal is aborted; replaced by tests. */
  readonly sleep: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
}

export const DEFAULT_RETRY: RetryOptions = {
  attempts: 5,
  baseDelayMs: 1_000,
  maxDelayMs: 30_000,
  maxRetryAfterSeconds: 90,
  now: Date.now,
  random: Math.random,
  sleep: (milliseconds, signal) => delay(milliseconds, undefined, signal === undefined ? {} : { signal }),
};

/**
 * Reads a `Retry-After` header: seconds or, from some proxies, an HTTP date.
 * @returns undefined when it is missing or invalid, 0 for a date in the past
 */
export function retryAfterSeconds(value: string | null, now: number): number | undefined {
  const seconds = /^\d+$/.test(value ?? '') ? Number(value) : (Date.parse(value ?? '') - now) / 1_000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

/**
 * Retries a request after 429, 502, 503, 504, a timeout or a failed connection. Waits for `Retry-After` plus exponential backoff with full
 * jitter, so that clients that were rejected together do not retry together. All other errors, and aborts, are final.
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
      if (attempt >= options.attempts || !isRetryable(error, options)) {
        throw error;
      }
      const retryAfterMs = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
      const backoffMs = options.random() * Math.min(options.maxDelayMs, options.baseDelayMs * 2 ** (attempt - 1));
      await options.sleep(retryAfterMs + backoffMs, signal);
    }
  }
}

function isRetryable(error: unknown, { maxRetryAfterSeconds }: RetryOptions): boolean {
  if (error instanceof ApiError) {
    const isTemporary = [429, 502, 503, 504].includes(error.status);
    return isTemporary && (error.retryAfterSeconds ?? 0) <= maxRetryAfterSeconds;
  }
  // `fetch` rejects with a TypeError when there is no response: connection refused or reset.
  return ['TypeError', 'TimeoutError'].includes((error as Error).name);
}
