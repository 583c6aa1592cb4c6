import { execFileSync, spawnSync } from 'node:child_process';

/** How to start a program: as whom, and with what in front of its command line. */
export interface Launch {
  readonly uid?: number;
  readonly gid?: number;
  readonly wrapper: readonly string[];
}

const AS_MYSELF: Launch = { wrapper: [] };

/** Accounts that every Debian has, in the order of preference. */
const ACCOUNTS = ['postgres', 'nobody'] as const;

/**
 * PostgreSQL refuses to run as root. A root user's processes are started as an unprivileged account instead; where that
 * account cannot reach the program (a checkout below `/root`), it is lent the capability to pass through folders.
 * @param program an executable that must be reachable
 * @param folder where its files are to lie, which must be reachable too
 */
export function launchUnprivileged(program: string, folder: string): Launch {
  if (process.getuid?.() !== 0) {
    return AS_MYSELF;
  }
  for (const account of ACCOUNTS) {
    const ids = idsOf(account);
    if (ids === undefined) {
      continue;
    }
    if (succeeds([program, '--version'], ids) && succeeds(['test', '-x', folder], ids)) {
      return { ...ids, wrapper: [] };
    }
    const wrapper = [
      'setpriv',
      `--reuid=${ids.uid}`,
      `--regid=${ids.gid}`,
      '--clear-groups',
      '--inh-caps=+dac_read_search',
      '--ambient-caps=+dac_read_search',
      '--',
    ];
    if (succeeds([...wrapper, program, '--version'])) {
      return { wrapper };
    }
  }
  throw new Error(
    'PostgreSQL does not run as root, and no unprivileged account can reach this folder. ' +
      'Run as an ordinary user, move the folder, or set DATABASE_URL to a PostgreSQL of your own.',
  );
}

/** The account that files have to belong to so that what is launched can use them. */
export function ownerOf(launch: Launch): { uid: number; gid: number } | undefined {
  if (launch.uid !== undefined && launch.gid !== undefined) {
    return { uid: launch.uid, gid: launch.gid };
  }
  const [uid, gid] = ['--reuid=', '--regid='].map((option) =>
    launch.wrapper.find((argument) => argument.startsWith(option))?.slice(option.length),
  );
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

function idsOf(account: string): { uid: number; gid: number } | undefined {
  try {
    const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, account], { stdio: 'pipe' })));
    return uid === undefined || gid === undefined ? undefined : { uid, gid };
  } catch {
    return undefined;
  }
}

function succeeds([command = '', ...rest]: readonly string[], ids: { uid?: number; gid?: number } = {}): boolean {
  return spawnSync(command, rest, { ...ids, cwd: '/', stdio: 'ignore' }).status === 0;
}
