import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describeWith } from './describe-with.js';
import { freePort } from './free-port.js';
import { waitFor } from './wait-for.js';

const START_ATTEMPTS = 3;

/** `describe` where redis-server is installed, and always in CI; skips the tests with a message elsewhere. */
export const describeWithRedis = describeWith('redis-server');

/** A Redis server that a test can kill, freeze and restart on the same port. It persists nothing. */
export class RedisServer {
  private constructor(
    readonly port: number,
    private readonly flags: readonly string[],
    private child: ChildProcess,
    private readonly folder: string,
    private readonly login: string,
  ) {}

  /** @param login like `user:password@`, when the flags require one */
  static async start(flags: readonly string[] = [], login = ''): Promise<RedisServer> {
    for (let attempt = 1; ; attempt++) {
      const port = await freePort();
      const folder = mkdtempSync(join(tmpdir(), 'petstore-redis-'));
      const server = new RedisServer(port, flags, launch(port, folder, flags), folder, login);
      try {
        await server.#waitUntilReady();
        return server;
      } catch (error) {
        await server.stop();
        // Another process has taken the port, or that of the cluster bus, in the meantime.
        if (attempt === START_ATTEMPTS) {
          throw error;
        }
      }
    }
  }

  get url(): string {
    return `redis://${this.login}127.0.0.1:${this.port}`;
  }

  /** Opens a connection for assertions. The caller disconnects it. */
  connect(): Redis {
    return new Redis(this.url, { maxRetriesPerRequest: 1 });
  }

  /** Simulates a crash. */
  async kill(): Promise<void> {
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await exited;
  }

  /** Starts it again after {@link kill}; empty, unless the flags keep a file. */
  async restart(): Promise<void> {
    this.child = launch(this.port, this.folder, this.flags);
    await this.#waitUntilReady();
  }

  /** Stops responding while connections stay open. */
  freeze(): void {
    this.child.kill('SIGSTOP');
  }

  thaw(): void {
    this.child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      await this.kill();
    }
    await waitFor(() => this.#isRemoved(), 'no process of Redis saves any more');
  }

  /** Removes the folder, in which a process of its own may still be saving. */
  #isRemoved(): boolean {
    try {
      rmSync(this.folder, { recursive: true, force: true });
      return true;
    } catch {
      return false;
    }
  }

  async #waitUntilReady(): Promise<void> {
    await waitFor(async () => {
      if (this.child.exitCode !== null) {
        throw new Error(`redis-server has exited with ${this.child.exitCode}`);
      }
      const redis = new Redis(this.url, { lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0 });
      redis.on('error', () => undefined);
      try {
        await redis.connect();
        // A server of another test may have the port.
        return (await redis.info('server')).includes(`process_id:${this.child.pid}\r\n`);
      } catch {
        return false;
      } finally {
        redis.disconnect();
      }
    }, 'redis-server accepts connections');
  }
}

function launch(port: number, folder: string, flags: readonly string[]): ChildProcess {
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...flags];
  return spawn('redis-server', args, { stdio: 'ignore' });
}
