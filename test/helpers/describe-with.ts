import { spawnSync } from 'node:child_process';
import { describeIf } from './describe-if.js';

/** `describe` where these programs are installed, and always in CI; skips the tests with a message elsewhere. */
export function describeWith(...programs: readonly string[]): typeof describe {
  const isInstalled = (program: string): boolean => spawnSync('which', [program]).status === 0;
  const missing = programs.filter((program) => !isInstalled(program));
  return describeIf(
    missing.length === 0 || process.env.CI === 'true',
    `${missing.join(', ')} (Debian: apt install ${missing.join(' ')})`,
  );
}
