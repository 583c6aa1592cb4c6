import { Inject, Injectable } from '@nestjs/common';
import { Batches } from '../common/batches.js';
import { FairSlots } from '../common/fair-slots.js';
import { CONFIG, type Config } from '../config/config.js';
import { isStatementFailure } from '../database/postgres-errors.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { type CancelOutcome, type CancelResult, orderLocked, OrdersRepository } from './orders.repository.js';

/** Statements that run at once; cancels that arrive meanwhile form the next batch. */
const BATCH_SLOTS = 2;
/** How long a batch waits while statements run: a burst of 80,000 cancels is executed, an unresponsive server is not awaited longer. Milliseconds. */
const BATCH_TIMEOUT_MS = 10_000;
/** Orders in one statement. */
const BATCH_SIZE_MAX = 500;
/** Orders that are cancelled alone at once, each on a connection of its own: they may wait for a locked row. */
const ALONE_MAX = 3;
/** Of these, by one caller: the locked orders of one key never hold all. */
const ALONE_CALLER_MAX = 2;
/** A slot is held for the lock timeout and a little longer, so a caller without slots gets the first one that becomes free. */
const SLOT_GRACE_MS = 1_000;
/** An order that is deleted or becomes pending meanwhile is looked at again; more often than this in a row is no coincidence. */
const ATTEMPTS_MAX = 3;

/** Undefined for an order that does not exist. */
type Result = CancelResult | Error | undefined;
type Results = ReadonlyMap<bigint, Result>;

/**
 * Executes cancels in batches: those that arrive while statements are running share the next statement. There is no timer: a cancel
 * that arrives alone starts after the turn of the event loop in which it arrived. Locked rows leave the batch and are waited for one by
 * one, a few at a time, so that they delay no other order; no caller can hold all of these slots.
 */
@Injectable()
export class CancelBatcher {
  readonly #batches: Batches<bigint, Result>;
  readonly #alone: FairSlots;

  constructor(
    private readonly repository: OrdersRepository,
    @Inject(CONFIG) private readonly config: Config,
    private readonly metrics: Metrics,
  ) {
    const slots = new FairSlots(BATCH_SLOTS, {
      ms: BATCH_TIMEOUT_MS,
      error: () => new DomainError('service_unavailable', 'Too many cancels are waiting; retry shortly.'),
    });
    this.#batches = new Batches(slots, BATCH_SIZE_MAX, (ids) => {
      this.metrics.cancelBatchSize.observe(ids.length);
      return this.#cancelAll(ids);
    });
    this.#alone = new FairSlots(ALONE_MAX, {
      ownerMax: ALONE_CALLER_MAX,
      ms: config.cancelLockTimeoutMs + SLOT_GRACE_MS,
      error: orderLocked,
    });
  }

  /**
   * Cancels an order if it is pending.
   * @param caller whose share of the slots for one order is used if the row is locked
   * @returns undefined when there is no such order
   * @throws {DomainError} `service_unavailable`
   */
  async cancel(id: bigint, caller: string): Promise<CancelOutcome | undefined> {
    const { isRepeat, results } = this.#batches.add(id);
    const result = (await results).get(id);
    if (result instanceof Error) {
      throw result;
    }
    if (result === 'retry') {
      this.metrics.cancelLockWaits.inc();
    }
    if (result === 'retry' || result === 'suppressed') {
      return this.#alone.run(caller, () => this.#cancelWaiting(id));
    }
    return isRepeat && result === 'cancelled' ? 'already_cancelled' : result;
  }

  /**
   * A statement that fails fails for all its orders, though perhaps only one of them is the cause, for instance by a
   * trigger. So its orders are cancelled again one by one, and each fails alone.
   */
  async #cancelAll(ids: readonly bigint[]): Promise<Results> {
    try {
      return await this.repository.cancelWithoutWaiting(ids);
    } catch (error) {
      if (ids.length === 1 || !isStatementFailure(error instanceof DomainError ? error.cause : error)) {
        return new Map(ids.map((id) => [id, error as Error]));
      }
    }
    const results = new Map<bigint, Result>();
    const startedAt = performance.now();
    let result: Result;
    for (const id of ids) {
      // Once they have taken as long as a lock timeout, the next one would probably wait for the same.
      const isLate = performance.now() - startedAt >= this.config.cancelLockTimeoutMs;
      result = isLate && result instanceof DomainError ? result : (await this.#cancelAll([id])).get(id);
      results.set(id, result);
    }
    return results;
  }

  async #cancelWaiting(id: bigint): Promise<CancelOutcome | undefined> {
    let result: CancelResult | undefined = 'retry';
    for (let attempt = 0; attempt < ATTEMPTS_MAX && (result === 'retry' || result === 'suppressed'); attempt++) {
      result = await this.repository.cancelWaiting(id);
    }
    if (result === 'retry') {
      throw orderLocked();
    }
    return result;
  }
}
