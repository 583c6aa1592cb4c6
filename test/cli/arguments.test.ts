import { duration, futureTime, integer, keyId, keyName } from '../../src/cli/arguments.js';

const NOW = new Date('2026-11-21T12:00:00.000Z');
const ID = '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11';

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
});
afterEach(() => {
  jest.useRealTimers();
});

const time = (text: string): string => futureTime(text).toISOString();

describe('an argument is parsed:', () => {
  test.each<[option: string, parse: (text: string) => unknown, accepted: Record<string, unknown>]>([
    [
      '--expires-at',
      time,
      {
        // Which times are RFC 3339 is tested with the parser.
        '2027-01-31T12:00:00.5Z': '2027-01-31T12:00:00.500Z',
        '2027-01-31T12:00:00-05:30': '2027-01-31T17:30:00.000Z',
        '2026-11-21T12:00:00.001Z': '2026-11-21T12:00:00.001Z',
      },
    ],
    ['--overlap', duration, { '0': 0, '0s': 0, '90s': 90_000, '30m': 1_800_000, '24h': 86_400_000, '7d': 604_800_000 }],
    ['--per-day', integer(1), { '1': 1, '60': 60, '2147483647': 2_147_483_647 }],
    [
      'the id of a key',
      keyId,
      { [ID.toUpperCase()]: ID, '5F1C0E3A': '5f1c0e3a', '5f1c0e3a-8d1b-4': '5f1c0e3a-8d1b-4' },
    ],
    [
      '--name',
      keyName,
      {
        '  Partner A ': 'Partner A',
        ['x'.repeat(200)]: 'x'.repeat(200),
        ['\u{1f436}'.repeat(200)]: '\u{1f436}'.repeat(200),
      },
    ],
  ])('%s', (_option, parse, accepted) => {
    const texts = Object.keys(accepted);
    expect(Object.fromEntries(texts.map((text) => [text, parse(text)]))).toEqual(accepted);
  });
});

describe('an argument is rejected with what is expected:', () => {
  const TIME = 'It must be an RFC 3339 time in the future with an offset, like 2027-01-31T12:00:00Z.';
  const NAME = 'It must have 1 to 200 characters, a visible one, no control';
  const DURATION = 'It must be a duration like 90s, 30m, 24h or 7d, or 0.';
  const INTEGER = 'It must be an integer from 1 to 2147483647.';
  test.each<[option: string, parse: (text: string) => unknown, message: string, rejected: string[]]>([
    [
      '--expires-at',
      time,
      TIME,
      ['', 'tomorrow', '2027-01-31', '2027-01-31T12:00:00', '2026-11-21T12:00:00Z', '2026-11-21T13:00:00+02:00'],
    ],
    [
      '--overlap',
      duration,
      DURATION,
      ['', '24', 'h', '-1h', '+1h', '1.5h', '1 h', '1h30m', '1w', '24H', '1e3s', '9999999d', 'toString'],
    ],
    [
      '--per-day',
      integer(1),
      INTEGER,
      ['0', '-1', '+1', '1.5', '1e3', '0x10', ' 1', '1 ', '', 'many', '2147483648', '9'.repeat(30), 'Infinity'],
    ],
    [
      'the id of a key',
      keyId,
      'The id must be the UUID of a key',
      ['', '1', 'pst_0000000000', '5f1c0e3', `${ID}1`, ID.replaceAll('-', ''), ID.replace('a', 'g'), "' OR 1=1 --"],
    ],
    [
      '--name',
      keyName,
      NAME,
      [
        '',
        '   ',
        '\t\n',
        '\u200b',
        '\u2060 \ufeff',
        'x'.repeat(201),
        '\u{1f436}'.repeat(201),
        'a\nb',
        'a\u001bb',
        'a\u202eb',
      ],
    ],
  ])('%s', (_option, parse, message, rejected) => {
    for (const text of rejected) {
      expect(() => parse(text)).toThrow(message);
    }
  });
});
