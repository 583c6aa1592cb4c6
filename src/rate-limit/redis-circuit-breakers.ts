import { Logger } from '@nestjs/common';
import { Cluster, ReplyError } from 'ioredis';
import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import { lruCache } from '../common/lru-cache.js';
import { CoalescedWrites } from './coalesced-writes.js';
import { isPrimary, type LimitRedis, nodeOf } from './redis-connection.js';
import { redisKeyOf } from './redis-scripts.js';

/** How long a command may take before the request is decided without Redis. Milliseconds. */
const COMMAND_TIMEOUT_MS = 100;
/** Consecutive failures of commands and connection attempts that open a breaker. */
const BREAKER_FAILURES = 3;
/** How often an open breaker probes its node. Milliseconds. */
const PROBE_INTERVAL_MS = 1_000;
/** Far above the tags that have to be tried to find one in the slots of a given node. */
const PROBE_TAGS_MAX = 10_000;
/** Arguments of the probe that no count reaches. */
const UNLIMITED = [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, 0, 0, 0];

/** Errors that a node returns whatever the key is. Redis 6 quotes those of a script within another error. */
const NODE_ERROR =
  /\b(?:READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|OOM|BUSY|MISCONF|NOREPLICAS|NOAUTH|NOPERM|max number of clients)\b/;
/** Keys whose errors have been logged. */
const LOGGED_KEYS_MAX = 1_000;

const UNAVAILABLE = new Error('Redis is unavailable');

/**
 * A circuit breaker for each node of Redis, so that a failed shard does not affect the others. Logs each change of a
 * node's state once. While a breaker is open the node is probed with the same script as requests: a node that responds
 * to PING may still reject writes. An error that concerns one key, such as WRONGTYPE, opens no breaker.
 */
export class RedisCircuitBreakers {
  readonly #logger = new Logger('RateLimit');
  /** Consecutive failures by node. */
  readonly #failures = new Map<string, number>();
  /** Nodes whose breaker is open. */
  readonly #unavailable = new Set<string>();
  readonly #loggedKeys = lruCache<string, true>(LOGGED_KEYS_MAX);
  readonly #writes: CoalescedWrites;

  /** @param onRecovered called when a node is available again */
  constructor(
    private readonly redis: LimitRedis,
    private readonly onRecovered: () => void,
  ) {
    this.#writes = new CoalescedWrites(redis);
    redis.on('error', (error: Error) => {
      this.#countFailure('', error);
    });
    if (redis instanceof Cluster) {
      redis.on('node error', (error: Error, node: string) => {
        // The loss of a replica node affects no request.
        if (isPrimary(redis, node)) {
          this.#countFailure(node, error);
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
   * @throws {Error} (by rejection) when the command fails or times out, or at once while the breaker is open
   */
  async execute<T>(subject: string, command: (redis: LimitRedis, key: string) => Promise<T>): Promise<T> {
    const key = redisKeyOf(subject);
    const node = nodeOf(this.redis, key);
    if (this.#unavailable.has(node)) {
      throw UNAVAILABLE;
    }
    this.#writes.batch();
    try {
      const reply = await withDeadline(command(this.redis, key), COMMAND_TIMEOUT_MS);
      this.#failures.delete(node);
      return reply;
    } catch (error) {
      if (concernsNode(error)) {
        this.#countFailure(node, asError(error));
      } else if (!this.#loggedKeys.has(key)) {
        this.#loggedKeys.set(key, true);
        this.#logger.error(`Redis cannot count ${key} (${asError(error).message}), counting it in memory`);
      }
      throw error;
    }
  }

  #countFailure(node: string, error: Error): void {
    if (this.#unavailable.has(node)) {
      return;
    }
    const failures = (this.#failures.get(node) ?? 0) + 1;
    this.#failures.set(node, failures);
    if (failures === BREAKER_FAILURES) {
      this.#unavailable.add(node);
      this.#logger.error(`${labelOf(node)} unavailable (${error.message}), counting in memory`);
      this.#probeLater(node);
    }
  }

  #probeLater(node: string): void {
    setTimeout(() => {
      const key = this.#probeKeyOf(node);
      if (key === undefined) {
        this.#setAvailable(node, 'replaced');
      } else if (this.redis.status !== 'end') {
        withDeadline(this.redis.consume(key, ...UNLIMITED), COMMAND_TIMEOUT_MS).then(
          () => {
            this.#setAvailable(node, 'available again');
          },
          (error: unknown) => {
            if (concernsNode(error)) {
              this.#probeLater(node);
            } else {
              this.#setAvailable(node, 'available again');
            }
          },
        );
      }
    }, PROBE_INTERVAL_MS).unref();
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
    this.#failures.delete(node);
    this.#unavailable.delete(node);
    this.#logger.warn(`${labelOf(node)} ${state}, counting in Redis`);
    this.onRecovered();
  }
}

/** Whether a node is unavailable: lost connections, timeouts and {@link NODE_ERROR}. */
function concernsNode(error: unknown): boolean {
  return !(error instanceof ReplyError) || NODE_ERROR.test((error as Error).message);
}

function labelOf(node: string): string {
  return node === '' ? 'Redis' : `Redis node ${node}`;
}
