import { Inject, Injectable } from '@nestjs/common';
import DataLoader from 'dataloader';
import { Semaphore } from '../common/semaphore.js';
import { CONFIG, type Config } from '../config/config.js';
import { isStatementFailure } from '../database/postgres-errors.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { orderLocked, OrdersRepository, type OrderStatus, type SeenStatus } from './orders.repository.js';

/** Statements that run at once; cancels that arrive meanwhile form the next batch. */
const BATCH_SLOTS = 2;
/** Orders in one statement. */
const BATCH_SIZE_MAX = 500;
/** Locked rows that are waited for at once, each on a connection of its own. */
const WAITING_MAX = 3;

/** What became of one order of a batch; undefined when there is no such order. */
type Result = SeenStatus | undefined | Error;

/**
 * Executes cancels in batches: those that arrive while statements are running share the next statement. There is no
 * timer, so a cancel that arrives alone starts at once. Locked rows leave the batch and are waited for one by one, a few
 * at a time, so that they delay no other order.
 */
@Injectable()
export class CancelBatcher {
  readonly #slots = new Semaphore(BATCH_SLOTS);
  readonly #waitingSlots = new Semaphore(WAITING_MAX);
  /** Orders that are being waited for; further cancels of the same order share the wait. */
  readonly #waits = new Map<bigint, Promise<OrderStatus | undefined>>();
  readonly #loader: DataLoader<bigint, SeenStatus | undefined>;
  readonly #lockTimeoutMs: number;

  constructor(
    private readonly repository: OrdersRepository,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#lockTimeoutMs = config.cancelLockTimeoutMs;
    this.#loader = new DataLoader((ids: readonly bigint[]) => this.#cancelBatch(ids), {
      cache: false,
      maxBatchSize: BATCH_SIZE_MAX,
      batchScheduleFn: (dispatch) => {
        // The slot is taken after this turn of the event loop, so that requests read in one turn share a statement.
        setImmediate(() => void this.#slots.acquire().then(dispatch));
      },
    });
  }

  /**
   * Cancels an order if it is pending.
   * @returns its status when its row was locked for this cancel, before the update; undefined when there is no such order
   * @throws {DomainError} `service_unavailable`
   */
  async cancel(id: bigint): Promise<OrderStatus | undefined> {
    const seen = await this.#loader.load(id);
    return seen === 'locked' ? this.#cancelWaiting(id) : seen;
  }

  async #cancelBatch(ids: readonly bigint[]): Promise<Result[]> {
    this.metrics.cancelBatchSize.observe(ids.length);
    let results: ReadonlyMap<bigint, Result>;
    try {
      results = await this.#cancelDistinct([...new Set(ids)]);
    } finally {
      this.#slots.release();
    }
    const repeated = new Set<bigint>();
    return ids.map((id) => {
      const result = results.get(id);
      if (repeated.has(id)) {
        return seenByRepeat(result);
      }
      repeated.add(id);
      return result;
    });
  }

  /**
   * A statement that fails fails for all its orders, though perhaps only one of them is the cause, for instance by a
   * trigger. So its orders are cancelled again one by one, and each fails alone.
   */
  async #cancelDistinct(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Result>> {
    try {
      return await this.repository.cancelUnlocked(ids);
    } catch (error) {
      if (ids.length === 1 || !isStatementFailure(error instanceof DomainError ? error.cause : error)) {
        throw error;
      }
    }
    const results = new Map<bigint, Result>();
    let unavailable: DomainError | undefined;
    for (const id of ids) {
      results.set(id, unavailable ?? (await this.#cancelAlone(id)));
      const result = results.get(id);
      // The next one would probably wait for the same timeout.
      unavailable ??= result instanceof DomainError ? result : undefined;
    }
    return results;
  }

  async #cancelAlone(id: bigint): Promise<Result> {
    try {
      return (await this.repository.cancelUnlocked([id])).get(id);
    } catch (error) {
      return error as Error;
    }
  }

  #cancelWaiting(id: bigint): Promise<OrderStatus | undefined> {
    this.metrics.cancelLockWaits.inc();
    const wait = this.#waits.get(id);
    if (wait !== undefined) {
      return wait.then(seenByRepeat);
    }
    const first = this.#waitFor(id).finally(() => this.#waits.delete(id));
    this.#waits.set(id, first);
    return first;
  }

  async #waitFor(id: bigint): Promise<OrderStatus | undefined> {
    if (!(await this.#waitingSlots.acquireWithin(this.#lockTimeoutMs))) {
      throw orderLocked();
    }
    try {
      return await this.repository.cancelWaiting(id);
    } finally {
      this.#waitingSlots.release();
    }
  }
}

/** What a second cancel of the same order sees that shares the lock of the first: a pending order is cancelled by now. */
function seenByRepeat<T>(first: T): T | 'cancelled' {
  return first === 'pending' ? 'cancelled' : first;
}
