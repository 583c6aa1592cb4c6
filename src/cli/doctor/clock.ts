import type { Clock } from '../../common/clock.js';
import { span } from '../wording.js';
import { error, ok, type Result, warning } from './check.js';

/** Limits report a reset in whole seconds. */
const TOLERATED_MS = 1_000;
/** Half of a minute window: keys expire and windows end at visibly different times. */
const ERROR_MS = 30_000;

/** This host's clock minus that of a server, which reads its clock halfway between two readings of ours. Milliseconds. */
export async function clockDifference(clock: Clock, readServerMs: () => Promise<number>): Promise<number> {
  const sentMs = clock.now();
  const serverMs = await readServerMs();
  return (sentMs + clock.now()) / 2 - serverMs;
}

export function clockResult(server: string, differenceMs: number): Result {
  const distance = Math.abs(differenceMs);
  if (distance <= TOLERATED_MS) {
    return ok('the same as of this host, within a second');
  }
  const message = `this host is ${span(distance)} ${differenceMs > 0 ? 'ahead of' : 'behind'} ${server}`;
  const remedy = 'Synchronise the clocks of all hosts with NTP: windows of limits and expiry times depend on them.';
  return distance > ERROR_MS ? error(message, remedy) : warning(message, remedy);
}
