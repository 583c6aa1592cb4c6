import type { Duplex } from 'node:stream';
import { Redis } from 'ioredis';
import type { LimitRedis } from './redis-connection.js';

/**
 * Lets commands that are sent in one turn of the event loop leave in one system call. Each stays a command of its own;
 * ioredis' own pipelining would do the same, but not load a script again that Redis has forgotten.
 */
export class GatheredWrites {
  #gathering = false;

  constructor(private readonly redis: LimitRedis) {}

  /** Call before a command is sent. The nodes of a cluster have connections of their own, which are left as they are. */
  gather(): void {
    if (this.#gathering || !(this.redis instanceof Redis) || this.redis.status !== 'ready') {
      return;
    }
    const stream: Duplex = this.redis.stream;
    this.#gathering = true;
    stream.cork();
    setImmediate(() => {
      this.#gathering = false;
      stream.uncork();
    });
  }
}
