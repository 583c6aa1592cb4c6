import { setTimeout as delay } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { circuitBreaker, type CircuitBreakerPolicy, ConsecutiveBreaker, handleAll } from 'cockatiel';
import { Cluster } from 'ioredis';
import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import { inBackground } from '../common/in-background.js';
import { CoalescedWrites } from './coalesced-writes.js';
import { isPrimary, type LimitRedis, nodeOf } from './redis-connection.js';
import { redisKeyOf } from './redis-scripts.js';

/** How long a command may take before the request is decided without Redis. Milliseconds. */
const COMMAND_TIMEOUT_MS = 100;
/** Consecutive failures of commands and connection attempts that open a breaker. */
const BREAKER_FAILURES = 3;
/** How long a breaker stays open before one command probes the node. Milliseconds. */
const BREAKER_OPEN_MS = 1_000;
/** Far above the tags that have to be tried to find one in the slots of a given node. */
const PROBE_TAGS_MAX = 10_000;

/**
 * A circuit breaker for each node of Redis, so that a failed shard does not affect the others. Logs each change of a
 * node's state once. While a breaker is open the node is probed with the same script as requests: a node that responds
 * to PING may still reject writes.
 */
export class RedisCircuitBreakers {
  readonly #logger = new Logger('RateLimit');
  readonly #breakers = new Map<string, CircuitBreakerPolicy>();
  readonly #unavailable = new Set<string>();
  readonly #writes: CoalescedWrites;

  /** @param onRecovered called when a node is available again */
  constructor(
    private readonly redis: LimitRedis,
    private readonly onRecovered: () => void,
  ) {
    this.#writes = new CoalescedWrites(redis);
    const onConnectionError = (error: Error, node = ''): void => {
      this.#run(node, () => Promise.reject(error)).catch(() => undefined);
    };
    redis.on('error', (error: Error) => {
      onConnectionError(error);
    });
    if (redis instanceof Cluster) {
      redis.on('node error', (error: Error, node: string) => {
        // The loss of a replica node affects no request.
        if (isPrimary(redis, node)) {
          onConnectionError(error, node);
        }
      });
    }
  }

  /** Whether some requests are counted by this process alone because a node is unavailable. */
  get degraded(): boolean {
    return this.#unavailable.size > 0;
  }

  /**
   * Sends a command under the breaker of the node that stores the subject, together with those that other requests send in
   * the same turn of the event loop.
   * @throws {Error} when the command fails or times out, or at once while the breaker is open
   */
  execute<T>(subject: string, command: (redis: LimitRedis, key: string) => Promise<T>): Promise<T> {
    const key = redisKeyOf(subject);
    return this.#run(nodeOf(this.redis, key), () => {
      this.#writes.batch();
      return withDeadline(command(this.redis, key), COMMAND_TIMEOUT_MS);
    });
  }

  #run<T>(node: string, command: () => Promise<T>): Promise<T> {
    return (this.#breakers.get(node) ?? this.#addBreaker(node)).execute(command);
  }

  #addBreaker(node: string): CircuitBreakerPolicy {
    const breaker = circuitBreaker(handleAll, {
      halfOpenAfter: BREAKER_OPEN_MS,
      breaker: new ConsecutiveBreaker(BREAKER_FAILURES),
    });
    breaker.onBreak((reason) => {
      // A failed probe opens the breaker again; that is no change of state.
      if (!this.#unavailable.has(node)) {
        this.#unavailable.add(node);
        const cause = 'error' in reason ? asError(reason.error).message : 'unknown error';
        this.#logger.error(`${labelOf(node)} unavailable (${cause}), counting in memory`);
        inBackground(this.#probeUntilAvailable(node));
      }
    });
    breaker.onReset(() => {
      this.#setAvailable(node, 'available again');
    });
    this.#breakers.set(node, breaker);
    return breaker;
  }

  async #probeUntilAvailable(node: string): Promise<void> {
    while (this.#unavailable.has(node) && this.redis.status !== 'end') {
      await delay(BREAKER_OPEN_MS, undefined, { ref: false });
      const key = this.#probeKeyOf(node);
      if (key === undefined) {
        this.#breakers.delete(node);
        this.#setAvailable(node, 'replaced');
        return;
      }
      await this.#run(node, () =>
        withDeadline(this.redis.consume(key, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER), COMMAND_TIMEOUT_MS),
      ).catch(() => undefined);
    }
  }

  /** A key that the node stores; undefined when the node has no slots any more, because another one has replaced it. */
  #probeKeyOf(node: string): string | undefined {
    for (let tag = 0; tag < PROBE_TAGS_MAX; tag++) {
      const key = `petstore:probe:{${tag}}`;
      if (node === '' || nodeOf(this.redis, key) === node) {
        return key;
      }
    }
    return undefined;
  }

  #setAvailable(node: string, state: string): void {
    this.#unavailable.delete(node);
    this.#logger.warn(`${labelOf(node)} ${state}, counting in Redis`);
    this.onRecovered();
  }
}

function labelOf(node: string): string {
  return node === '' ? 'Redis' : `Redis node ${node}`;
}
