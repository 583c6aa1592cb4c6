import { Inject, Injectable } from '@nestjs/common';
import DataLoader from 'dataloader';
import { CONFIG, type Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { Semaphore } from '../common/semaphore.js';
import { type CancelOutcome, outcomeForRepeat } from './cancellation.js';
import { type CancelAttempt, OrdersRepository } from './orders.repository.js';

/** Statements that may run at once: while they do, the next batch gathers. */
const BATCH_SLOTS = 2;
/** Orders in one statement. */
const BATCH_SIZE_MAX = 500;
/** Rows locked by others that may be waited for at once, each on a connection of its own. */
const WAITING_MAX = 3;

/**
 * Cancels orders together: cancels that arrive while the statements of others are running are taken by the next
 * statement. There is no timer, so a cancel that arrives alone goes at once. Rows that somebody else holds leave the
 * batch and are waited for one by one, a few at a time, so that they hold up nobody else.
 */
@Injectable()
export class CancelBatcher {
  readonly #slots = new Semaphore(BATCH_SLOTS);
  readonly #waitingSlots = new Semaphore(WAITING_MAX);
  /** Orders that are being waited for; whoever wants the same order meanwhile shares the wait. */
  readonly #waits = new Map<bigint, Promise<CancelOutcome>>();
  readonly #loader: DataLoader<bigint, CancelAttempt>;
  readonly #lockTimeoutMs: number;

  constructor(
    private readonly repository: OrdersRepository,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#lockTimeoutMs = config.cancelLockTimeoutMs;
    this.#loader = new DataLoader((ids: readonly bigint[]) => this.#cancelAll(ids), {
      cache: false,
      maxBatchSize: BATCH_SIZE_MAX,
      batchScheduleFn: (dispatch) => {
        // A free slot is taken after this turn of the event loop, so that requests read in one turn share a statement.
        setImmediate(() => void this.#slots.acquire().then(dispatch));
      },
    });
  }

  /** @throws {DomainError} `service_unavailable` */
  async cancel(id: bigint): Promise<CancelOutcome> {
    const attempt = await this.#loader.load(id);
    // Out of the batch: nobody else who shared the statement waits for this order.
    return attempt === 'locked' ? this.#cancelWhenFree(id) : attempt;
  }

  async #cancelAll(ids: readonly bigint[]): Promise<CancelAttempt[]> {
    this.metrics.cancelBatchSize.observe(ids.length);
    let attempts: Map<bigint, CancelAttempt>;
    try {
      attempts = await this.repository.cancelUnlocked([...new Set(ids)]);
    } finally {
      this.#slots.release();
    }
    const seen = new Set<bigint>();
    return ids.map((id) => {
      const attempt = attempts.get(id) ?? 'not_found';
      if (seen.has(id) && attempt !== 'locked') {
        return outcomeForRepeat(attempt);
      }
      seen.add(id);
      return attempt;
    });
  }

  #cancelWhenFree(id: bigint): Promise<CancelOutcome> {
    this.metrics.cancelLockWaits.inc();
    const wait = this.#waits.get(id);
    if (wait !== undefined) {
      return wait.then(outcomeForRepeat);
    }
    const first = this.#waitFor(id).finally(() => this.#waits.delete(id));
    this.#waits.set(id, first);
    return first;
  }

  async #waitFor(id: bigint): Promise<CancelOutcome> {
    if (!(await this.#waitingSlots.acquireWithin(this.#lockTimeoutMs))) {
      throw new DomainError(
        'service_unavailable',
        'The order is being changed by somebody else; try again in a moment.',
      );
    }
    try {
      return await this.repository.cancelWaiting(id);
    } finally {
      this.#waitingSlots.release();
    }
  }
}
