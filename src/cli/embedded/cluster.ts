import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { PostgresPrograms } from './postgres-programs.js';

const SUPERUSER = 'petstore';

// The cluster in a folder: the server's data, and the password of its superuser.
const homeOf = (folder: string): string => join(folder, 'cluster');
export const dataOf = (folder: string): string => join(homeOf(folder), 'data');
/** The beginning of the name of a cluster that is not complete yet. */
const TEMPORARY = 'cluster.new-';
const passwordOf = (folder: string): string => join(homeOf(folder), 'password');
export const pidFileOf = (folder: string): string => join(dataOf(folder), 'postmaster.pid');

/** What a shell reads within double quotes, in which initdb puts the path of the program `postgres`, or what ends a line for initdb. */
const SPECIAL = /["$`\\\n]/;

/**
 * Works in a temporary folder and renames it at the end: an interrupted run leaves no incomplete cluster, and of two at the same time
 * the first to end makes that of both.
 * @returns whether there was no cluster before
 */
export async function initialiseOnce(folder: string, programs: PostgresPrograms): Promise<boolean> {
  if (fs.existsSync(homeOf(folder))) {
    // Left by interrupted runs. One that is still at work fails, and uses the cluster.
    const left = fs.readdirSync(folder).filter((name) => name.startsWith(TEMPORARY));
    left.forEach((name) => {
      remove(join(folder, name));
    });
    return false;
  }
  const home = fs.mkdtempSync(join(folder, TEMPORARY));
  try {
    await initialise(home, programs);
    fs.renameSync(home, homeOf(folder));
  } catch (error) {
    remove(home);
    if (!fs.existsSync(homeOf(folder))) {
      throw error;
    }
  }
  return true;
}

function remove(path: string): void {
  fs.rmSync(path, { recursive: true, force: true, maxRetries: 5 });
}

async function initialise(home: string, programs: PostgresPrograms): Promise<void> {
  const program = programs.command('initdb').at(-1) ?? '';
  if (SPECIAL.test(program)) {
    throw new Error(
      `PostgreSQL cannot be initialised in a folder with ", $, \`, \\ or a line break in its name (${program}). Move this folder, or set DATABASE_URL.`,
    );
  }
  const password = join(home, 'password');
  fs.writeFileSync(password, randomBytes(24).toString('hex'), { mode: 0o600, flush: true });
  if (programs.owner !== undefined) {
    const { uid, gid } = programs.owner;
    fs.chownSync(home, uid, gid);
    fs.chownSync(password, uid, gid);
  }
  const authentication = [`--username=${SUPERUSER}`, `--pwfile=${password}`, '--auth=scram-sha-256'];
  await run(programs.command('initdb', '-D', join(home, 'data'), ...authentication, '--encoding=UTF8', '--locale=C'));
}

/** @throws {Error} when the data is of another major version or incomplete */
export function checkCluster(folder: string, { version }: PostgresPrograms): void {
  const found = read(folder, join(dataOf(folder), 'PG_VERSION')).trim();
  read(folder, passwordOf(folder));
  if (found !== version) {
    throw new Error(
      `The data in ${folder} is of PostgreSQL ${found}, and the installed one is ${version}. ` +
        'Delete the folder to begin anew, or set DATABASE_URL.',
    );
  }
}

/** The connection URL of one of the databases. */
export function urlOf(folder: string, port: string, database: string): string {
  const password = read(folder, passwordOf(folder));
  return `postgresql://${SUPERUSER}:${password}@127.0.0.1:${port}/${database}`;
}

/** A file that every cluster has. */
function read(folder: string, path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      throw error;
    }
    throw new Error(
      `The data in ${folder} is incomplete: ${path} is missing. Restore it, delete the folder to begin anew, or set DATABASE_URL.`,
      { cause: error },
    );
  }
}

/**
 * The server that runs on the cluster, as it describes itself in `postmaster.pid`.
 * @throws {Error} when the cluster belongs to another user
 */
export function postmasterOf(folder: string): { pid: number; port: string; status: string } | undefined {
  try {
    const [pid = '', , , port = '', , , , status = ''] = fs.readFileSync(pidFileOf(folder), 'utf8').split('\n');
    // The file survives a crash, and another process may have the number by now.
    const runsHere = commandLineOf(pid).includes(` -D ${dataOf(folder)} `);
    return runsHere ? { pid: Number(pid), port, status: status.trim() } : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') {
      throw new Error(
        `The embedded database belongs to another user, who may be running it (EACCES: ${dataOf(folder)}). ` +
          'Run as that user, or set DATABASE_URL.',
        { cause: error },
      );
    }
    return undefined;
  }
}

/** In a session of its own, where the terminal's Ctrl-C does not reach it. */
async function run([program = '', ...args]: readonly string[]): Promise<void> {
  const child = spawn(program, args, { cwd: '/', stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  const [errors] = await Promise.all([text(child.stderr), once(child, 'close')]);
  if (child.exitCode !== 0) {
    throw new Error(`Cannot initialise the embedded PostgreSQL:\n${errors}`);
  }
}

/** A process's arguments, separated by spaces; empty when it does not exist. */
function commandLineOf(pid: string): string {
  return fs.existsSync('/proc/self/cmdline')
    ? fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
    : spawnSync('ps', ['-ww', '-o', 'command=', '-p', pid], { encoding: 'utf8' }).stdout;
}
