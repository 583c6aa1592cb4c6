import { spawnSync } from 'node:child_process';

type Name = string | number | ((...args: never[]) => unknown);

/**
 * `describe` where a requirement is met; elsewhere it prints a message and lists the skipped block as `todo`.
 * @param requirement what the tests need and how to install it, such as `redis-server (Debian: apt install redis-server)`
 */
export function describeIf(isMet: boolean, requirement: string): typeof describe {
  return isMet
    ? describe
    : Object.assign((name: Name) => {
        process.stderr.write(`\nSKIPPED: "${String(name)}" requires ${requirement}\n\n`);
        it.todo(`${String(name)} (skipped: requires ${requirement})`);
      }, describe);
}

/** `describe` where these programs are installed, and always in CI; skips the tests with a message elsewhere. */
export function describeWith(...programs: readonly string[]): typeof describe {
  const missing = programs.filter((program) => spawnSync('which', [program]).status !== 0);
  const requirement = `${missing.join(', ')} (Debian: apt install ${missing.join(' ')})`;
  return describeIf(missing.length === 0 || process.env.CI === 'true', requirement);
}
