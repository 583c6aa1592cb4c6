import { parseArgs } from 'node:util';

export const SCENARIOS = ['list', 'changes', 'polls', 'cancel', 'rejections', 'flood', 'start'];
export const PROFILES = ['list', 'polls', 'cancel', 'limited', 'unknown'];

export const USAGE = `Usage: npm run bench -- [options]

  --only NAMES      scenarios, separated by commas: ${SCENARIOS.join(', ')} (default: all)
  --rounds N        rounds; the report contains medians (default: 5)
  --seconds N       measured duration of each load run (default: 5)
  --warmup N        warm-up before it, in seconds (default: 1)
  --orders N        size of the large table (default: 1000000, the size of the targets)
  --json FILE       write every value of every round to FILE; with --profile, V8's profile (for DevTools)
  --skip-check      do not check first that all contestants send the same responses
  --profile NAME    profile the CPU of this service instead of comparing; one of: ${PROFILES.join(', ')}
  --connections N   with --profile: number of connections (default: 64)
  --help`;

/** @throws {Error} that names the invalid argument */
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
    throw new Error(`--only must be a list of ${SCENARIOS.join(', ')} (got "${unknown}").`);
  }
  if (values.profile !== undefined && !PROFILES.includes(values.profile)) {
    throw new Error(`--profile must be one of ${PROFILES.join(', ')} (got "${values.profile}").`);
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
    throw new Error(`${name} must be ${whole ? 'an integer' : 'a number'} greater than 0 (got "${text}").`);
  }
  return number;
}
