import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { PostgresPrograms } from './postgres-programs.js';

const SUPERUSER = 'petstore';

// The cluster in a folder: the server's data, and the password of its superuser.
const homeOf = (folder: string): string => join(folder, 'cluster');
export const dataOf = (folder: string): string => join(homeOf(folder), 'data');

/**
 * Works in a temporary folder and renames it at the end: an interrupted run leaves no incomplete cluster, and of two at the same time
 * the first to end makes that of both.
 */
export async function initialise(folder: string, programs: PostgresPrograms): Promise<void> {
  const home = mkdtempSync(join(folder, 'cluster.new-'));
  try {
    const password = join(home, 'password');
    writeFileSync(password, randomBytes(24).toString('hex'), { mode: 0o600, flush: true });
    if (programs.owner !== undefined) {
      const { uid, gid } = programs.owner;
      chownSync(home, uid, gid);
      chownSync(password, uid, gid);
    }
    const authentication = [`--username=${SUPERUSER}`, `--pwfile=${password}`, '--auth=scram-sha-256'];
    await run(programs.command('initdb', '-D', join(home, 'data'), ...authentication, '--encoding=UTF8', '--locale=C'));
    renameSync(home, homeOf(folder));
  } catch (error) {
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    if (!existsSync(homeOf(folder))) {
      throw error;
    }
  }
}

/** The connection URL of one of the databases. */
export function urlOf(folder: string, port: string, database: string): string {
  const password = readFileSync(join(homeOf(folder), 'password'), 'utf8');
  return `postgresql://${SUPERUSER}:${password}@127.0.0.1:${port}/${database}`;
}

/** The server that runs on the cluster, as it describes itself in `postmaster.pid`. */
export function runningServer(folder: string): { pid: number; port: string; status: string } | undefined {
  const path = join(dataOf(folder), 'postmaster.pid');
  if (!existsSync(path)) {
    return undefined;
  }
  const [pid = '', , , port = '', , , , status = ''] = readFileSync(path, 'utf8').split('\n');
  // The file survives a crash, and another process may have the number by now.
  return commandLineOf(pid).includes(dataOf(folder)) ? { pid: Number(pid), port, status: status.trim() } : undefined;
}

/** A process's arguments, separated by spaces; empty when it does not exist. */
function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    // macOS has no /proc, and small images have no ps.
    const ps = spawnSync('ps', ['-ww', '-o', 'command=', '-p', pid], { encoding: 'utf8' });
    return ps.error === undefined ? ps.stdout : '';
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
