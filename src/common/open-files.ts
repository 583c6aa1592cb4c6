import { readFileSync } from 'node:fs';

/** For the connections to the database and to Redis, for the log, and for files that are being read. */
const OTHER_FILES = 200;

/** How many files this process may open (`ulimit -n`; Node raises the soft limit to the hard one). Undefined where /proc does not say. */
function openFilesMax(): number | undefined {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/**
 * Why this process cannot hold as many connections as it is configured to.
 * @returns a phrase for the log; undefined when the limit is high enough or unknown
 */
export function openFilesProblem(connectionsMax: number, max = openFilesMax()): string | undefined {
  const needed = connectionsMax + OTHER_FILES;
  return max === undefined || max >= needed
    ? undefined
    : `at most ${max} open files, too few for MAX_CONNECTIONS=${connectionsMax}: raise the limit (ulimit -n) to ${needed}`;
}
