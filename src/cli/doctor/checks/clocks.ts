import { span } from '../../wording.js';
import type { Check } from '../check.js';
import { type Facts, ifKnown, type Known } from '../facts.js';
import { error, type Finding, ok, warning } from '../finding.js';

/** Limits report a reset in whole seconds. */
const TOLERATED_MS = 1_000;
/** Half of a minute window: keys expire and windows end at visibly different times. */
const ERROR_MS = 30_000;

export const databaseClock = clockCheck('PostgreSQL', ({ server }) =>
  'value' in server ? { value: server.value.clockDifferenceMs } : server,
);

export const redisClock = clockCheck('Redis', ({ redis }) =>
  'value' in redis
    ? {
        value: redis.value
          .map(({ clockDifferenceMs }) => clockDifferenceMs)
          .reduce((worst, each) => (Math.abs(each) > Math.abs(worst) ? each : worst), 0),
      }
    : redis,
);

function clockCheck(server: string, differenceOf: (facts: Facts) => Known<number>): Check {
  return {
    name: `clock of ${server}`,
    evaluate: (facts) => ifKnown(differenceOf(facts), (differenceMs) => evaluate(server, differenceMs)),
  };
}

function evaluate(server: string, differenceMs: number): Finding {
  const distance = Math.abs(differenceMs);
  if (distance <= TOLERATED_MS) {
    return ok('the same as of this host, within a second');
  }
  const message = `this host is ${span(distance)} ${differenceMs > 0 ? 'ahead of' : 'behind'} ${server}`;
  const remedy = 'Synchronise the clocks of all hosts with NTP: windows of limits and expiry times depend on them.';
  return distance > ERROR_MS ? error(message, remedy) : warning(message, remedy);
}
