import { duration, futureTime, integer, keyId, keyName } from '../../src/cli/arguments.js';

const ID = '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11';
const DOG = '\u{1f436}';

beforeEach(() => {
  jest.useFakeTimers({ now: new Date('2026-11-21T12:00:00.000Z') });
});
afterEach(() => {
  jest.useRealTimers();
});

const time = (text: string): string => futureTime(text).toISOString();

// Which times are RFC 3339 is tested with the parser.
test.each<[string, (text: string) => unknown, accepted: [string, unknown][], rejected: string[], message: string]>([
  [
    '--expires-at',
    time,
    [['2026-11-21T12:00:00.001Z', '2026-11-21T12:00:00.001Z']],
    ['', 'tomorrow', '2026-11-21T12:00:00Z'],
    'It must be an RFC 3339 time in the future with an offset, like 2027-01-31T12:00:00Z.',
  ],
  [
    '--overlap',
    duration,
    Object.entries({ '0': 0, '90s': 90_000, '30m': 1_800_000, '24h': 86_400_000, '7d': 604_800_000 }),
    ['', '24', '-1h', '1.5h', '1h30m', '1w', '9999999d', 'toString'],
    'It must be a duration like 90s, 30m, 24h or 7d, or 0.',
  ],
  [
    '--per-day',
    integer(1),
    Object.entries({ '1': 1, '2147483647': 2_147_483_647 }),
    ['', '0', '1.5', '1e3', ' 1', 'many', '2147483648'],
    'It must be an integer from 1 to 2147483647.',
  ],
  [
    'the id of a key',
    keyId,
    Object.entries({ [ID.toUpperCase()]: ID, '5F1C0E3A': '5f1c0e3a', '5f1c0e3a-8d1b-4': '5f1c0e3a-8d1b-4' }),
    ['', 'pst_0000000000', '5f1c0e3', `${ID}1`, "' OR 1=1 --"],
    'The id must be the UUID of a key',
  ],
  [
    '--name',
    keyName,
    ['x'.repeat(200), DOG.repeat(200)].map((name) => [` ${name} `, name]),
    ['', ' \t\n', DOG.repeat(201), 'a\nb', 'a\u202eb'],
    'It must have 1 to 200 characters, and no control characters',
  ],
])('%s is parsed, or rejected with what is expected', (_option, parse, accepted, rejected, message) => {
  expect(accepted.map(([text]) => [text, parse(text)])).toEqual(accepted);
  for (const text of rejected) {
    expect(() => parse(text)).toThrow(message);
  }
});
