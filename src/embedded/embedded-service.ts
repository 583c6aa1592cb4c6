import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PROJECT_ROOT } from '../common/project-root.js';
import { commandLineOf } from './command-line-of.js';
import { isMigrated, migrate } from './migrate.js';
import { PostgresServer } from './postgres-server.js';

const DATABASE = 'petstore';

/** Holds the cluster, the demo keys and the lock of the embedded service. */
export const EMBEDDED_FOLDER = join(PROJECT_ROOT, '.data');

const LOCK_FILE = join(EMBEDDED_FOLDER, 'service.json');

/** Codes of file system errors that the operator can fix. */
const NOT_WRITABLE = ['EACCES', 'EPERM', 'EROFS', 'ENOSPC'];

interface Lock {
  readonly pid: number;
  /** Tells this process from a later one with the same id. */
  readonly commandLine: string | undefined;
  readonly databaseUrl?: string;
}

export interface EmbeddedDatabase {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts the embedded PostgreSQL in `.data/` and applies the migrations.
 * @param stop ends the start after the current step
 * @throws {Error} when another service runs on the same folder
 * @throws the reason of `stop`
 */
export async function startEmbeddedDatabase(stop: AbortSignal): Promise<EmbeddedDatabase> {
  try {
    mkdirSync(EMBEDDED_FOLDER, { recursive: true });
    await takeLock();
  } catch (error) {
    throw explain(error);
  }
  let server: PostgresServer | undefined;
  const release = async (): Promise<void> => {
    await server?.stop();
    rmSync(LOCK_FILE, { force: true });
  };
  try {
    server = await PostgresServer.start({ folder: EMBEDDED_FOLDER });
    stop.throwIfAborted();
    const url = server.url(DATABASE);
    if (!(await isMigrated(url))) {
      await migrate(url);
    }
    stop.throwIfAborted();
    writeLock({ ...ownLock(), databaseUrl: url });
    return { url, stop: release };
  } catch (error) {
    await release();
    throw explain(error);
  }
}

/** The database of an embedded service that is running, for the commands. */
export function runningEmbeddedDatabaseUrl(): string | undefined {
  const lock = readLock();
  return lock !== undefined && isRunning(lock) ? lock.databaseUrl : undefined;
}

async function takeLock(): Promise<void> {
  // An empty file belongs to a service that is writing it now or was killed while writing it.
  const lock = readLock() ?? (await delay(200).then(readLock));
  if (lock !== undefined && isRunning(lock)) {
    throw new Error(
      `The service is already running here (process ${lock.pid}, data in .data/). Stop it first, or set DATABASE_URL to run another.`,
    );
  }
  rmSync(LOCK_FILE, { force: true });
  // 'wx' fails when the file exists: of two concurrent starts, one wins.
  writeLock(ownLock(), 'wx');
}

function writeLock(lock: Lock, flag: 'w' | 'wx' = 'w'): void {
  writeFileSync(LOCK_FILE, JSON.stringify(lock), { flag, mode: 0o600 });
}

function readLock(): Lock | undefined {
  try {
    return (JSON.parse(readFileSync(LOCK_FILE, 'utf8')) as Lock | null) ?? undefined;
  } catch {
    return undefined;
  }
}

function ownLock(): Lock {
  return { pid: process.pid, commandLine: commandLineOf(process.pid) };
}

/** A lock with the id of this process is stale: process ids repeat when a container restarts. */
function isRunning({ pid, commandLine }: Lock): boolean {
  return pid !== process.pid && commandLine !== undefined && commandLineOf(pid) === commandLine;
}

function explain(error: unknown): unknown {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return NOT_WRITABLE.includes(code)
    ? new Error(
        `Cannot write to ${EMBEDDED_FOLDER} (${message}). Make it writable for this user, free disk space, or set DATABASE_URL.`,
        { cause: error },
      )
    : error;
}
