import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../common/project-root.js';
import { migrate } from './migrate.js';
import { PostgresServer } from './postgres-server.js';

const DATABASE = 'petstore';

/** Where the embedded service keeps its data, its keys and its lock. */
export const EMBEDDED_FOLDER = join(PROJECT_ROOT, '.data');

const LOCK_FILE = join(EMBEDDED_FOLDER, 'service.json');

interface Lock {
  readonly pid: number;
  /** The kernel's start time of the process: a number used again by another process is not mistaken for it. */
  readonly startedAt: string | undefined;
  readonly databaseUrl?: string;
}

export interface EmbeddedDatabase {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts the embedded PostgreSQL under `.data/`, migrated and ready.
 * @throws {Error} when another service runs on the same folder
 */
export async function startEmbeddedDatabase(): Promise<EmbeddedDatabase> {
  mkdirSync(EMBEDDED_FOLDER, { recursive: true });
  takeLock();
  try {
    const server = await PostgresServer.start({ folder: EMBEDDED_FOLDER });
    const url = server.url(DATABASE);
    try {
      await server.ensureDatabase(DATABASE);
      await migrate(url);
    } catch (error) {
      await server.stop();
      throw error;
    }
    writeLock({ ...ownLock(), databaseUrl: url });
    return {
      url,
      stop: async () => {
        await server.stop();
        rmSync(LOCK_FILE, { force: true });
      },
    };
  } catch (error) {
    rmSync(LOCK_FILE, { force: true });
    throw error;
  }
}

/** The database of an embedded service that is running now, for the command line beside it. */
export function runningEmbeddedDatabaseUrl(): string | undefined {
  const lock = readLock();
  return lock !== undefined && isRunning(lock) ? lock.databaseUrl : undefined;
}

function takeLock(): void {
  const lock = readLock();
  if (lock !== undefined) {
    if (isRunning(lock)) {
      throw new Error(
        `The service is already running here (process ${lock.pid}, data in .data/). Stop it first, or set DATABASE_URL to run another.`,
      );
    }
    rmSync(LOCK_FILE, { force: true });
  }
  // 'wx' fails when the file exists: of two starts at once, one wins.
  writeFileSync(LOCK_FILE, JSON.stringify(ownLock()), { flag: 'wx', mode: 0o600 });
}

function writeLock(lock: Lock): void {
  writeFileSync(LOCK_FILE, JSON.stringify(lock), { mode: 0o600 });
}

function readLock(): Lock | undefined {
  try {
    return JSON.parse(readFileSync(LOCK_FILE, 'utf8')) as Lock;
  } catch {
    return undefined;
  }
}

function ownLock(): Lock {
  return { pid: process.pid, startedAt: startTimeOf(process.pid) };
}

function isRunning({ pid, startedAt }: Lock): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') {
      return false;
    }
  }
  return startTimeOf(pid) === startedAt;
}

/** Field 22 of `/proc/<pid>/stat` (proc(5)); undefined where there is no such file system. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
