import { ApiError, type ErrorBody } from './errors.ts';
import { IdleTimeout } from './idle-timeout.ts';
import { type Order, readOrders } from './order-stream.ts';
import { DEFAULT_RETRY, type RetryOptions, retryAfterSeconds, withRetries } from './retry.ts';

export interface ClientOptions {
  /** Ends in the version segment, like `https://api.example.com/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** How long a request waits for the response, and then for each part of it. Milliseconds, by default 60,000. */
  readonly timeoutMs?: number;
  readonly retry?: Partial<RetryOptions>;
}

export interface OrderList {
  /**
   * Identifies this state of the list; pass it to the next call. Undefined until `orders` has been read to its end, because a list
   * that is interrupted must not count as read, and when the service sent none.
   */
  readonly etag: string | undefined;
  /** Can be read once, to its end or until `break`. */
  readonly orders: AsyncGenerator<Order, void, undefined>;
}

/** The outcome of a cancel. Only `cancelled` means that this call cancelled the order. */
export type CancelOutcome = 'cancelled' | 'already_cancelled' | 'already_shipped' | 'not_found';

const OUTCOMES: Readonly<Record<string, CancelOutcome>> = {
  order_already_cancelled: 'already_cancelled',
  order_already_shipped: 'already_shipped',
  order_not_found: 'not_found',
};

/** A client of the store orders service that respects its limits. */
export class PetstoreClient {
  readonly #baseUrl: string;
  readonly #apiKey: string;
  readonly #timeoutMs: number;
  readonly #retry: RetryOptions;

  /** @throws {TypeError} when the URL is not one of HTTP: `fetch` would reject as for a lost connection, and each request be retried */
  constructor({ baseUrl, apiKey, timeoutMs = 60_000, retry }: ClientOptions) {
    if (!/^https?:/.test(baseUrl)) {
      throw new TypeError(`The base URL must be like https://api.example.com/v1 (got "${baseUrl}").`);
    }
    this.#baseUrl = baseUrl.replace(/\/$/, '');
    this.#apiKey = apiKey;
    this.#timeoutMs = timeoutMs;
    this.#retry = { ...DEFAULT_RETRY, ...retry };
  }

  /**
   * All orders, or undefined if the list has not changed since `etag`.
   * @throws {ApiError} the error response, when retrying does not help
   */
  async listOrders(options: { etag?: string | undefined; signal?: AbortSignal } = {}): Promise<OrderList | undefined> {
    const headers: Record<string, string> = options.etag === undefined ? {} : { 'If-None-Match': options.etag };
    const { response, timeout } = await this.#send('GET', '/store/orders', headers, options.signal);
    if (response.status === 304 || response.body === null) {
      return undefined;
    }
    const orders = readOrders(timeout.read(response.body), options.signal);
    return withEtagAtEnd(orders, response.headers.get('ETag') ?? undefined);
  }

  /**
   * Cancels a pending order. A lost response causes a retry, so `already_cancelled` can be the result of this call's
   * first attempt.
   * @throws {ApiError} any other error
   */
  async cancelOrder(orderId: bigint, options: { signal?: AbortSignal } = {}): Promise<CancelOutcome> {
    try {
      await this.#send('DELETE', `/store/orders/${orderId}`, {}, options.signal);
      return 'cancelled';
    } catch (error) {
      const outcome = error instanceof ApiError ? OUTCOMES[error.code] : undefined;
      if (outcome === undefined) {
        throw error;
      }
      return outcome;
    }
  }

  /** @throws {TypeError} when the URL or the key is malformed */
  async #send(
    method: string,
    path: string,
    headers: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<{ response: Response; timeout: IdleTimeout }> {
    const request = new Request(`${this.#baseUrl}${path}`, {
      method,
      headers: { ...headers, Authorization: `Bearer ${this.#apiKey}` },
    });
    return withRetries(
      async () => {
        const timeout = new IdleTimeout(this.#timeoutMs, signal);
        const response = await timeout.wait(fetch(request, { signal: timeout.signal }));
        if (response.status >= 400) {
          throw await timeout.wait(errorOf(response, this.#retry.now()));
        }
        return { response, timeout };
      },
      this.#retry,
      signal,
    );
  }
}

function withEtagAtEnd(orders: OrderList['orders'], etag: string | undefined): OrderList {
  let isComplete = false;
  async function* toEnd(): OrderList['orders'] {
    yield* orders;
    isComplete = true;
  }
  return {
    orders: toEnd(),
    get etag() {
      return isComplete ? etag : undefined;
    },
  };
}

async function errorOf(response: Response, now: number): Promise<ApiError> {
  const retryAfter = retryAfterSeconds(response.headers.get('Retry-After'), now);
  return new ApiError(errorBody(await response.text(), response.status), retryAfter);
}

/** A proxy or load balancer in front of the service may send errors in another format. */
function errorBody(text: string, status: number): ErrorBody {
  try {
    const body = JSON.parse(text) as Partial<ErrorBody>;
    if (typeof body.code === 'string' && typeof body.message === 'string') {
      return { code: body.code, message: body.message, status };
    }
  } catch {
    // Not JSON: the error does not come from the service.
  }
  return { code: 'unknown', message: `Received status ${status} without an error of the service.`, status };
}
