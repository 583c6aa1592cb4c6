import type { Duplex } from 'node:stream';
import { Redis } from 'ioredis';
import type { LimitRedis } from './redis-connection.js';

/** Commands that leave together at most: Redis begins with them while we read the next requests. */
const GATHERED_MAX = 16;

/**
 * Lets commands that are sent in one turn of the event loop leave in few system calls. Each stays a command of its own;
 * ioredis' own pipelining would do the same, but not load a script again that Redis has forgotten.
 */
export class CoalescedWrites {
  /** The connection that is held back until this turn ends. */
  #held: Duplex | undefined;
  #gathered = 0;

  constructor(private readonly redis: LimitRedis) {}

  /** Call before a command is sent. The nodes of a cluster have connections of their own, which are left as they are. */
  gather(): void {
    if (this.#held === undefined) {
      this.#hold();
    } else if (this.#gathered % GATHERED_MAX === 0) {
      this.#held.uncork();
      this.#held.cork();
    }
    this.#gathered++;
  }

  #hold(): void {
    if (!(this.redis instanceof Redis) || this.redis.status !== 'ready') {
      return;
    }
    const stream: Duplex = this.redis.stream;
    stream.cork();
    this.#held = stream;
    this.#gathered = 0;
    setImmediate(() => {
      this.#held = undefined;
      stream.uncork();
    });
  }
}
