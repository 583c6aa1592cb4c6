import { span } from '../wording.js';
import { error, type Finding, ok, warning } from './finding.js';

/** Limits report a reset in whole seconds. */
const TOLERATED_MS = 1_000;
/** Half of a minute window: keys expire and windows end at visibly different times. */
const ERROR_MS = 30_000;

/** @param differenceMs this host's clock minus the server's */
export function clockFinding(server: string, differenceMs: number): Finding {
  const distance = Math.abs(differenceMs);
  if (distance <= TOLERATED_MS) {
    return ok('the same as of this host, within a second');
  }
  const message = `this host is ${span(distance)} ${differenceMs > 0 ? 'ahead of' : 'behind'} ${server}`;
  const remedy = 'Synchronise the clocks of all hosts with NTP: windows of limits and expiry times depend on them.';
  return distance > ERROR_MS ? error(message, remedy) : warning(message, remedy);
}
