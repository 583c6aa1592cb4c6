import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** CPU seconds that a process has used so far, in user and kernel mode (proc(5), /proc/pid/stat). */
export function cpuSecondsOf(pid) {
  const { utime, stime } = statOf(pid);
  return (utime + stime) / TICKS_PER_SECOND;
}

/** CPU seconds of a process, its children, and its children that have ended. */
export function cpuSecondsOfFamily(pid) {
  const parent = statOf(pid);
  let ticks = parent.utime + parent.stime + parent.cutime + parent.cstime;
  for (const name of readdirSync('/proc')) {
    if (/^\d+$/.test(name)) {
      try {
        const child = statOf(name);
        ticks += child.ppid === pid ? child.utime + child.stime : 0;
      } catch {
        // The process ended meanwhile.
      }
    }
  }
  return ticks / TICKS_PER_SECOND;
}

/** The resident memory of a process and its peak so far, in bytes. */
export function memoryOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const bytes = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)[1]) * 1_024;
  return { resident: bytes('VmRSS'), peak: bytes('VmHWM') };
}

/** Resets the peak before a measurement. Returns false if that is not permitted. */
export function resetPeak(pid) {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
    return true;
  } catch {
    return false;
  }
}

function statOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name in parentheses may contain spaces, so the fields are counted after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [ppid, utime, stime, cutime, cstime] = [1, 11, 12, 13, 14].map((index) => Number(fields[index]));
  return { ppid, utime, stime, cutime, cstime };
}
