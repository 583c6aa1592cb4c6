import { Logger } from '@nestjs/common';
import { Cluster, ReplyError } from 'ioredis';
import { asError } from '../common/as-error.js';
import { withDeadline } from '../common/deadline.js';
import { inBackground } from '../common/in-background.js';
import { lruCache } from '../common/lru-cache.js';
import { CoalescedWrites, isPrimary, type LimitRedis, nodeOf } from './redis-connection.js';
import { redisKeyOf } from './redis-script.js';

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
  /** Consecutive failures by node; with {@link BREAKER_FAILURES} of them its breaker is open until a probe succeeds. */
  readonly #failures = new Map<string, number>();
  readonly #loggedKeys = lruCache<string, true>(LOGGED_KEYS_MAX);
  readonly #writes: CoalescedWrites;

  /** @param recoveries counts how often a node is available again */
  constructor(
    private readonly redis: LimitRedis,
    private readonly recoveries: { inc(): void },
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
    return [...this.#failures.keys()].some((node) => this.#isOpen(node));
  }

  /**
   * Sends a command under the breaker of the node that has the counts of this API key, together with those that other requests
   * send in the same turn of the event loop.
   * @throws {Error} (by rejection) when the command fails or times out, or at once while the breaker is open
   */
  async execute<T>(keyId: string, command: (redis: LimitRedis, key: string) => Promise<T>): Promise<T> {
    const key = redisKeyOf(keyId);
    const node = nodeOf(this.redis, key);
    if (this.#isOpen(node)) {
      throw UNAVAILABLE;
    }
    this.#writes.batch();
    try {
      const reply = await withDeadline(command(this.redis, key), COMMAND_TIMEOUT_MS);
      if (!this.#isOpen(node)) {
        this.#failures.delete(node);
      }
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

  #isOpen(node: string): boolean {
    return (this.#failures.get(node) ?? 0) >= BREAKER_FAILURES;
  }

  #countFailure(node: string, error: Error): void {
    if (this.#isOpen(node)) {
      return;
    }
    this.#failures.set(node, (this.#failures.get(node) ?? 0) + 1);
    if (this.#isOpen(node)) {
      this.#logger.error(`${labelOf(node)} unavailable (${error.message}), counting in memory`);
      this.#probeLater(node);
    }
  }

  #probeLater(node: string): void {
    setTimeout(() => {
      if (this.redis.status !== 'end') {
        inBackground(this.#probe(node));
      }
    }, PROBE_INTERVAL_MS).unref();
  }

  async #probe(node: string): Promise<void> {
    const key = this.#probeKeyOf(node);
    try {
      if (key !== undefined) {
        await withDeadline(this.redis.consume(key, ...UNLIMITED), COMMAND_TIMEOUT_MS);
      }
    } catch (error) {
      if (concernsNode(error)) {
        this.#probeLater(node);
        return;
      }
    }
    this.#failures.delete(node);
    this.#logger.warn(`${labelOf(node)} ${key === undefined ? 'replaced' : 'available again'}, counting in Redis`);
    this.recoveries.inc();
  }

  /** A key that the node stores; undefined when it has no slots any more, because another node has replaced it. */
  #probeKeyOf(node: string): string | undefined {
    for (let tag = 0; tag < PROBE_TAGS_MAX; tag++) {
      const key = `petstore:probe:{${tag}}`;
      if (node === '' || nodeOf(this.redis, key) === node) {
        return key;
      }
    }
    return undefined;
  }
}

/** Whether a node is unavailable: lost connections, timeouts and {@link NODE_ERROR}. */
function concernsNode(error: unknown): boolean {
  return !(error instanceof ReplyError) || NODE_ERROR.test((error as Error).message);
}

function labelOf(node: string): string {
  return node === '' ? 'Redis' : `Redis node ${node}`;
}
