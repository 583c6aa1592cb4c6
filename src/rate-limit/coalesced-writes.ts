import type { Duplex } from 'node:stream';
import { Redis } from 'ioredis';
import type { LimitRedis } from './redis-connection.js';

/** Commands written together at most: Redis runs them while we read the next requests. */
const BATCH_MAX = 16;

/**
 * Writes the commands of one turn of the event loop in few system calls. Each stays a command of its own; the pipelining
 * of ioredis would do the same, but does not load a script again that Redis has evicted.
 */
export class CoalescedWrites {
  /** The connection that is corked until this turn ends. */
  #corked: Duplex | undefined;
  #batched = 0;

  constructor(private readonly redis: LimitRedis) {}

  /** Call before a command is sent. The connections to the nodes of a cluster are not corked. */
  batch(): void {
    if (this.#corked === undefined) {
      this.#cork();
    } else if (this.#batched % BATCH_MAX === 0) {
      this.#corked.uncork();
      this.#corked.cork();
    }
    this.#batched++;
  }

  #cork(): void {
    if (!(this.redis instanceof Redis) || this.redis.status !== 'ready') {
      return;
    }
    const stream: Duplex = this.redis.stream;
    stream.cork();
    this.#corked = stream;
    this.#batched = 0;
    setImmediate(() => {
      this.#corked = undefined;
      stream.uncork();
    });
  }
}
