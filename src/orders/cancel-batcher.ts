import { Inject, Injectable } from '@nestjs/common';
import { Batches } from '../common/batches.js';
import { Slots } from '../common/slots.js';
import { CONFIG, type Config } from '../config/config.js';
import { isStatementFailure } from '../database/postgres-errors.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { type CancelOutcome, type CancelResult, orderLocked, OrdersRepository } from './orders.repository.js';

/** Statements that run at once; cancels that arrive meanwhile form the next batch. */
const RUNNING_MAX = 2;
/** Orders in one statement. */
const BATCH_SIZE_MAX = 500;
/** Orders that are cancelled alone at once, each on a connection of its own: mostly they wait for a lock. */
const WAITING_MAX = 3;
/** Of these, of one caller: the locked orders of one key never hold all. */
const WAITING_CALLER_MAX = 2;

/** `undecided`: the statement for several orders has failed. Undefined for an order that does not exist. */
type Result = CancelResult | 'undecided' | undefined;

/**
 * Executes cancels in batches: those that arrive while statements are running share the next statement. Rows that another transaction
 * has locked, and all rows of a statement that fails, are cancelled one by one, a few at a time, so that they delay no other order and each
 * fails alone.
 */
@Injectable()
export class CancelBatcher {
  readonly #batches: Batches<bigint, Result>;
  readonly #waiting: Slots;

  constructor(
    private readonly repository: OrdersRepository,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#batches = new Batches(RUNNING_MAX, BATCH_SIZE_MAX, (ids) => {
      metrics.cancelBatchSize.observe(ids.length);
      return this.#cancelAll(ids);
    });
    this.#waiting = new Slots(WAITING_MAX, {
      ownerMax: WAITING_CALLER_MAX,
      // A slot is held for at most twice the lock timeout, so a caller without slots gets the first one that becomes free.
      waitMs: 2 * config.cancelLockTimeoutMs,
      error: orderLocked,
    });
  }

  /**
   * Cancels an order if it is pending.
   * @param caller whose share of the waits for locked orders is used if the row is locked
   * @returns undefined when there is no such order
   * @throws {DomainError} `service_unavailable`
   */
  async cancel(id: bigint, caller: string): Promise<CancelOutcome | undefined> {
    const { isRepeat, results } = this.#batches.add(id);
    const result = (await results).get(id);
    if (result === 'locked') {
      this.metrics.cancelLockWaits.inc();
    }
    if (result === 'locked' || result === 'undecided') {
      return this.#waiting.run(caller, () => this.repository.cancelWaiting(id));
    }
    return isRepeat && result === 'cancelled' ? 'already_cancelled' : result;
  }

  /** A statement that fails fails for all its orders, though perhaps only one of them is the cause, for instance by a trigger. */
  async #cancelAll(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Result>> {
    try {
      return await this.repository.cancelWithoutWaiting(ids);
    } catch (error) {
      if (ids.length === 1 || !isStatementFailure(error instanceof DomainError ? error.cause : error)) {
        throw error;
      }
      return new Map(ids.map((id) => [id, 'undecided']));
    }
  }
}
