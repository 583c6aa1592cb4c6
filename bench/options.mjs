import { parseArgs } from 'node:util';

export const SCENARIOS = ['list', 'polls', 'cancel', 'flat', 'refusals', 'flood', 'start'];
export const PROFILES = ['list', 'polls', 'cancel', 'spent', 'wrong'];

export const USAGE = `Usage: npm run bench -- [options]

  --only NAMES      which scenarios, separated by commas: ${SCENARIOS.join(', ')} (default: all)
  --rounds N        how often each contestant has its turn; the medians are reported (default: 5)
  --seconds N       how long each load run counts (default: 5)
  --warmup N        how long each load run goes before it counts, in seconds (default: 1)
  --orders N        size of the large table (default: 1000000; the targets are for that)
  --json FILE       also write every value of every round to a file; with --profile, V8's profile (for DevTools)
  --skip-check      do not check first that all contestants give the same answers
  --profile NAME    instead of comparing, profile this service's CPU in one of: ${PROFILES.join(', ')}
  --connections N   with --profile: connections of the load (default: 64)
  --help`;

/** @throws {Error} that says what is wrong with the command line */
export function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', default: SCENARIOS.join(',') },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '5' },
      warmup: { type: 'string', default: '1' },
      orders: { type: 'string', default: '1000000' },
      json: { type: 'string' },
      'skip-check': { type: 'boolean', default: false },
      profile: { type: 'string' },
      connections: { type: 'string', default: '64' },
      help: { type: 'boolean', default: false },
    },
  });
  const only = values.only.split(',');
  const unknown = only.find((name) => !SCENARIOS.includes(name));
  if (unknown !== undefined) {
    throw new Error(`There is no scenario "${unknown}".`);
  }
  if (values.profile !== undefined && !PROFILES.includes(values.profile)) {
    throw new Error(`There is no profile "${values.profile}".`);
  }
  return {
    only,
    rounds: numberFrom(values.rounds, '--rounds', { whole: true }),
    seconds: numberFrom(values.seconds, '--seconds'),
    warmup: numberFrom(values.warmup, '--warmup'),
    orders: numberFrom(values.orders, '--orders', { whole: true }),
    json: values.json,
    skipCheck: values['skip-check'],
    profile: values.profile,
    connections: numberFrom(values.connections, '--connections', { whole: true }),
    help: values.help,
  };
}

function numberFrom(text, name, { whole = false } = {}) {
  const number = Number(text);
  if (!(number > 0) || (whole && !Number.isInteger(number))) {
    throw new Error(`${name} must be a ${whole ? 'whole ' : ''}number above 0, not "${text}".`);
  }
  return number;
}
