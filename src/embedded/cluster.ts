import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { commandLineOf } from './command-line-of.js';
import { findPostgresPrograms, type PostgresPrograms } from './postgres-programs.js';
import { runDetached } from './run-detached.js';

export const SUPERUSER = 'petstore';

const TEMPORARY_PREFIX = 'postgres.new-';
const START_TIMEOUT_SECONDS = 60;
const FAST_SHUTDOWN_TIMEOUT_MS = 15_000;
const IMMEDIATE_SHUTDOWN_TIMEOUT_MS = 5_000;

/** The files of a server and the programs that work on them. */
export class Cluster {
  readonly #folder: string;
  readonly #data: string;
  readonly #pidFile: string;
  readonly #programs: PostgresPrograms;

  constructor(folder: string, programs?: string) {
    this.#folder = folder;
    this.#data = join(folder, 'postgres');
    this.#pidFile = join(this.#data, 'postmaster.pid');
    this.#programs = findPostgresPrograms(folder, programs);
  }

  /** Works in a temporary folder and renames it at the end: an interrupted run leaves no incomplete cluster. */
  async initialiseOnce(): Promise<void> {
    if (fs.existsSync(join(this.#data, 'PG_VERSION'))) {
      return;
    }
    for (const name of fs.readdirSync(this.#folder).filter((entry) => entry.startsWith(TEMPORARY_PREFIX))) {
      fs.rmSync(join(this.#folder, name), { recursive: true, force: true, maxRetries: 5 });
    }
    const data = fs.mkdtempSync(join(this.#folder, TEMPORARY_PREFIX));
    const { owner } = this.#programs;
    if (owner !== undefined) {
      fs.chownSync(data, owner.uid, owner.gid);
    }
    const options = ['--auth-local=peer', '--auth-host=scram-sha-256', '--encoding=UTF8', '--locale=C'];
    await runDetached(this.#programs.command('initdb', '-D', data, `--username=${SUPERUSER}`, ...options)).catch(
      (error: unknown) => {
        fs.rmSync(data, { recursive: true, force: true });
        throw new Error(`Cannot initialise the embedded PostgreSQL:\n${(error as Error).message}`, { cause: error });
      },
    );
    fs.rmSync(this.#data, { recursive: true, force: true });
    fs.renameSync(data, this.#data);
  }

  /** The superuser's password. One whose file is missing or incomplete is replaced. The server must not run. */
  async password(): Promise<string> {
    const file = join(this.#folder, 'postgres-password');
    const stored = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : '';
    if (/^[0-9a-f]{48}$/.test(stored)) {
      return stored;
    }
    const password = randomBytes(24).toString('hex');
    await runDetached(this.#programs.command('postgres', '--single', '-D', this.#data, 'postgres'), {
      input: `ALTER ROLE ${SUPERUSER} PASSWORD '${password}'\n`,
    });
    fs.writeFileSync(file, password, { mode: 0o600 });
    return password;
  }

  async start(port: number, settings: Readonly<Record<string, string>>): Promise<void> {
    const options = Object.entries({ listen_addresses: '127.0.0.1', unix_socket_directories: '', port, ...settings })
      .map(([name, value]) => `-c ${name}='${value}'`)
      .join(' ');
    const logFile = join(this.#folder, 'postgres.log');
    const log = fs.openSync(logFile, 'w', 0o600);
    const wait = ['--wait', `--timeout=${START_TIMEOUT_SECONDS}`];
    try {
      await runDetached(this.#programs.command('pg_ctl', 'start', '-D', this.#data, ...wait, '-o', options), {
        stdio: ['ignore', log, log],
      });
    } catch (error) {
      await this.stop();
      const reason = fs.readFileSync(logFile, 'utf8').slice(-2_000);
      throw new Error(`The embedded PostgreSQL did not start:\n${reason}`, { cause: error });
    } finally {
      fs.closeSync(log);
    }
  }

  /** Stops the server that runs on this cluster, if there is one: ours, or one that outlived a killed service. */
  async stop(): Promise<void> {
    for (const [signal, timeoutMs] of [
      ['SIGINT', FAST_SHUTDOWN_TIMEOUT_MS],
      ['SIGQUIT', IMMEDIATE_SHUTDOWN_TIMEOUT_MS],
    ] as const) {
      const pid = this.signal(signal);
      const deadline = performance.now() + timeoutMs;
      while (pid !== undefined && this.#isPostmaster(pid) && performance.now() < deadline) {
        await delay(20);
      }
    }
  }

  /** @returns the process that was signalled */
  signal(signal: NodeJS.Signals): number | undefined {
    const pid = this.postmasterPid();
    if (pid !== undefined) {
      process.kill(pid, signal);
    }
    return pid;
  }

  postmasterPid(): number | undefined {
    const pid = this.#recordedPid();
    return pid !== undefined && this.#isPostmaster(pid) ? pid : undefined;
  }

  /** PostgreSQL does not start while any process has the recorded number. */
  removeStalePidFile(): void {
    const pid = this.#recordedPid();
    // A process whose command line cannot be read may be a postmaster; PostgreSQL decides.
    if (pid !== undefined && commandLineOf(pid) !== undefined && !this.#isPostmaster(pid)) {
      fs.rmSync(this.#pidFile, { force: true });
    }
  }

  #recordedPid(): number | undefined {
    const pid = fs.existsSync(this.#pidFile) ? Number(fs.readFileSync(this.#pidFile, 'utf8').split('\n')[0]) : NaN;
    return Number.isInteger(pid) && pid > 0 ? pid : undefined;
  }

  /** The file survives a crash, and another process may have the number by now. */
  #isPostmaster(pid: number): boolean {
    return commandLineOf(pid)?.startsWith(`${this.#programs.path('postgres')} -D ${this.#data} `) ?? false;
  }
}
