import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describeWith } from './describe-if.js';
import { freePort } from './free-port.js';
import { Program } from './program.js';

/** `describe` where redis-server is installed, and always in CI; skips the tests with a message elsewhere. */
export const describeWithRedis = describeWith('redis-server');

/** The rights of a user of Redis, as docs/operations.md lists them. */
export const SERVICE_COMMANDS: readonly string[] =
  '-@all +evalsha +eval +time +hmget +hset +hdel +pexpireat +info +ping +select'.split(' ');

/** A Redis server that a test can kill, freeze and restart on the same port. It persists nothing, unless the flags say so. */
export class RedisServer {
  #program!: Program;

  private constructor(
    readonly port: number,
    readonly url: string,
    private readonly folder: string,
    private readonly flags: readonly string[],
  ) {}

  /** @param login like `user:password@`, when the flags require one */
  static async start(flags: readonly string[] = [], login = ''): Promise<RedisServer> {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), 'petstore-redis-'));
    const server = new RedisServer(port, `redis://${login}127.0.0.1:${port}`, folder, flags);
    await server.restart();
    return server;
  }

  /** Starts it again after {@link kill}. */
  async restart(): Promise<void> {
    const own = ['--port', String(this.port), '--bind', '127.0.0.1', '--save', '', '--dir', this.folder];
    this.#program = new Program(['redis-server', ...own, ...this.flags]);
    await this.#program.untilOutput(/Ready to accept connections/);
  }

  /** Opens a connection for assertions. The caller disconnects it. */
  connect(): Redis {
    return new Redis(this.url, { maxRetriesPerRequest: 1 });
  }

  /** Runs commands on a connection of their own. */
  async administrate<T>(work: (admin: Redis) => Promise<T>): Promise<T> {
    const admin = this.connect();
    admin.on('error', () => undefined);
    try {
      return await work(admin);
    } finally {
      admin.disconnect();
    }
  }

  /** Simulates a crash. */
  async kill(): Promise<void> {
    await this.#program.stop('SIGKILL');
  }

  /** Stops responding while connections stay open. */
  freeze(): void {
    this.#program.child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#program.child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.kill();
    // A process of its own may still be saving.
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
