import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describeIf } from './describe-if.js';
import { waitFor } from './wait-for.js';

/** Whether there is a `redis-server` to test with. Where there must be one, in CI, its absence is a failure. */
export function hasRedisServer(): boolean {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return process.env.CI === 'true';
  }
}

/** `describe` where there is a `redis-server`; elsewhere it says loudly what is left out. */
export const describeWithRedis = describeIf(
  hasRedisServer(),
  'redis-server',
  'there is no redis-server here (Debian: apt install redis-server)',
);

/** A private Redis that a test can stop, freeze and start again on the same port. It keeps nothing on disk. */
export class RedisServer {
  private constructor(
    readonly port: number,
    private readonly flags: readonly string[],
    private child: ChildProcess,
    private readonly folder: string,
  ) {}

  static async start(flags: readonly string[] = []): Promise<RedisServer> {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), 'petstore-redis-'));
    const server = new RedisServer(port, flags, launch(port, folder, flags), folder);
    await server.#untilReady();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** A connection to look at it by. The caller disconnects it. */
  connect(): Redis {
    return new Redis(this.url, { maxRetriesPerRequest: 1 });
  }

  /** Kills it, as a crash would. */
  async kill(): Promise<void> {
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await exited;
  }

  /** Starts it again after {@link kill}, empty. */
  async restart(): Promise<void> {
    this.child = launch(this.port, this.folder, this.flags);
    await this.#untilReady();
  }

  /** Leaves its connections open and answers nothing. */
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
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** How often each command was carried out, by Redis' own statistics. Commands inside scripts are counted by Redis too. */
  async commandCounts(): Promise<Record<string, number>> {
    const redis = this.connect();
    try {
      const lines = (await redis.info('commandstats')).split('\r\n');
      return Object.fromEntries(
        lines.flatMap((line) => {
          const [, name, calls] = /^cmdstat_([^:]+):calls=(\d+)/.exec(line) ?? [];
          return name === undefined ? [] : [[name, Number(calls)]];
        }),
      );
    } finally {
      redis.disconnect();
    }
  }

  async #untilReady(): Promise<void> {
    await waitFor(async () => {
      const redis = new Redis(this.url, { lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0 });
      redis.on('error', () => undefined);
      try {
        await redis.connect();
        await redis.ping();
        return true;
      } catch {
        return false;
      } finally {
        redis.disconnect();
      }
    }, 'redis-server answers');
  }
}

function launch(port: number, folder: string, flags: readonly string[]): ChildProcess {
  const args = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    folder,
    ...flags,
  ];
  return spawn('redis-server', args, { stdio: 'ignore' });
}

async function freePort(): Promise<number> {
  // A cluster node also listens on its port plus 10,000.
  for (;;) {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    if (port < 55_000) {
      return port;
    }
  }
}
