import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * A process's arguments, separated by spaces. They tell whether a recorded process id still belongs to that process.
 * @returns undefined when the process does not exist or cannot be inspected
 */
export function commandLineOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    const { stdout } = spawnSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
    return stdout || undefined;
  }
}
