import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { findPostgresBinaries, type PostgresBinaries } from './postgres-binaries.js';
import { type Launch, launchUnprivileged, ownerOf } from './unprivileged-user.js';

const SUPERUSER = 'petstore';
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 15_000;

export interface PostgresServerOptions {
  /** Holds the cluster (`postgres/`), its password and its log. Made when it does not exist. */
  readonly folder: string;
  /** Settings of `postgresql.conf` that differ from the defaults. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** A real PostgreSQL server as a child process, on a free port of 127.0.0.1. */
export class PostgresServer {
  private constructor(
    private readonly process: ChildProcess,
    private readonly port: number,
    private readonly password: string,
  ) {}

  /** @throws {Error} with the end of the server's log when it does not come up */
  static async start({ folder, settings = {} }: PostgresServerOptions): Promise<PostgresServer> {
    const binaries = await findPostgresBinaries();
    const dataFolder = join(folder, 'postgres');
    mkdirSync(folder, { recursive: true });
    const launch = launchUnprivileged(binaries.postgres, folder);
    const password = passwordIn(folder);
    if (!existsSync(join(dataFolder, 'PG_VERSION'))) {
      await initialise(binaries, launch, dataFolder, password);
    }
    await stopOrphan(dataFolder);
    const port = await freePort();
    const logFile = join(folder, 'postgres.log');
    const log = openSync(logFile, 'a', 0o600);
    const flags = Object.entries({ listen_addresses: '127.0.0.1', unix_socket_directories: '', ...settings }).flatMap(
      ([name, value]) => ['-c', `${name}=${value}`],
    );
    const child = launched(launch, binaries.postgres, ['-D', dataFolder, '-p', String(port), ...flags], log);
    closeSync(log);
    const server = new PostgresServer(child, port, password);
    await server.#untilReady(logFile);
    return server;
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  /** The connection URL of one of its databases. */
  url(database: string): string {
    return `postgresql://${SUPERUSER}:${this.password}@127.0.0.1:${this.port}/${database}`;
  }

  /** Makes a database unless there is one of that name. */
  async ensureDatabase(name: string): Promise<void> {
    const client = new pg.Client(this.url('postgres'));
    await client.connect();
    try {
      const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [name]);
      if (rowCount === 0) {
        await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`);
      }
    } finally {
      await client.end();
    }
  }

  /** Stops the server, ending its connections ("fast shutdown"). */
  async stop(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) {
      return;
    }
    const exited = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill('SIGINT');
    const timer = setTimeout(() => this.process.kill('SIGQUIT'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  }

  async #untilReady(logFile: string): Promise<void> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (Date.now() < deadline) {
      if (this.process.exitCode !== null || this.process.signalCode !== null) {
        break;
      }
      if (await this.#answers()) {
        return;
      }
      await delay(20);
    }
    await this.stop();
    throw new Error(`The embedded PostgreSQL did not start:\n${readFileSync(logFile, 'utf8').slice(-2_000)}`);
  }

  async #answers(): Promise<boolean> {
    const client = new pg.Client({ connectionString: this.url('postgres'), connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}

/** In a session of its own: the terminal's Ctrl-C is for the service, which then stops the server itself, last. */
function launched(launch: Launch, program: string, args: readonly string[], log: number): ChildProcess {
  const [command = program, ...rest] = [...launch.wrapper, program, ...args];
  return spawn(command, rest, {
    cwd: '/',
    detached: true,
    stdio: ['ignore', log, log],
    ...(launch.uid === undefined ? {} : { uid: launch.uid }),
    ...(launch.gid === undefined ? {} : { gid: launch.gid }),
  });
}

function passwordIn(folder: string): string {
  const file = join(folder, 'postgres-password');
  if (!existsSync(file)) {
    writeFileSync(file, randomBytes(24).toString('hex'), { mode: 0o600 });
  }
  return readFileSync(file, 'utf8').trim();
}

async function initialise(
  binaries: PostgresBinaries,
  launch: Launch,
  dataFolder: string,
  password: string,
): Promise<void> {
  rmSync(dataFolder, { recursive: true, force: true });
  mkdirSync(dataFolder, { mode: 0o700 });
  const owner = ownerOf(launch);
  const passwordFile = `${dataFolder}-initial-password`;
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (owner !== undefined) {
    chownSync(dataFolder, owner.uid, owner.gid);
    chownSync(passwordFile, owner.uid, owner.gid);
  }
  const logFile = `${dataFolder}-initdb.log`;
  const log = openSync(logFile, 'w', 0o600);
  try {
    const child = launched(
      launch,
      binaries.initdb,
      [
        '-D',
        dataFolder,
        `--username=${SUPERUSER}`,
        `--pwfile=${passwordFile}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
      ],
      log,
    );
    const code = await new Promise((resolve, reject) => child.once('exit', resolve).once('error', reject));
    if (code !== 0) {
      rmSync(dataFolder, { recursive: true, force: true });
      throw new Error(`The embedded PostgreSQL could not be set up:\n${readFileSync(logFile, 'utf8').slice(-2_000)}`);
    }
    rmSync(logFile);
  } finally {
    closeSync(log);
    rmSync(passwordFile, { force: true });
  }
}

/** A server that outlived a killed service still holds the cluster; it is stopped, so that the cluster opens cleanly. */
async function stopOrphan(dataFolder: string): Promise<void> {
  const pidFile = join(dataFolder, 'postmaster.pid');
  if (!existsSync(pidFile)) {
    return;
  }
  const [pid, folder] = readFileSync(pidFile, 'utf8').split('\n');
  if (folder !== dataFolder || !isAlive(Number(pid))) {
    return;
  }
  process.kill(Number(pid), 'SIGINT');
  const deadline = Date.now() + STOP_TIMEOUT_MS;
  while (isAlive(Number(pid)) && Date.now() < deadline) {
    await delay(50);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
