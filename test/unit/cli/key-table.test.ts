import * as format from '../../../src/cli/key-table.js';
import type { KeyView } from '../../../src/cli/key-view.js';
import { onTerminal } from '../../helpers/on-terminal.js';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const at = (time: string): Date => new Date(time);

const keyTable = (keys: readonly KeyView[], columns?: number): string =>
  onTerminal(columns, () => format.keyTable(keys, NOW));
const keyDetails = (key: KeyView): string => onTerminal(80, () => format.keyDetails(key, NOW));

function buildView(overrides: Partial<KeyView> = {}): KeyView {
  return {
    id: '11111111-1111-4111-8111-111111111111',
    name: 'Partner Inc.',
    keyPrefix: 'pst_abcdef',
    plan: 'pro',
    state: 'active',
    requestsPerMinute: 300,
    requestsPerDay: 10_000,
    requestsLeftToday: 9_412,
    bannedUntil: null,
    createdAt: at('2026-11-18T12:00:00Z'),
    expiresAt: null,
    revokedAt: null,
    successorId: null,
    lastUsedAt: at('2026-11-21T11:48:30Z'),
    ...overrides,
  };
}

describe('keyTable', () => {
  it('shows plan, state, remaining requests and last use of each key in aligned columns', () => {
    const keys = [
      buildView(),
      buildView({ name: 'B', state: 'banned', bannedUntil: at('2026-11-21T12:04:10Z'), requestsLeftToday: 0 }),
      buildView({ name: 'C', state: 'expired', expiresAt: at('2026-11-21T07:00:00Z'), lastUsedAt: null }),
      buildView({ name: 'D', state: 'revoked', revokedAt: at('2026-11-21T11:59:20Z'), requestsLeftToday: null }),
      buildView({ name: 'E', expiresAt: at('2026-11-23T12:00:00Z') }),
    ];
    const rows = keyTable(keys).split('\n');
    expect(rows.map((row) => row.split(/ {2,}/).slice(0, 5))).toEqual([
      ['NAME', 'PLAN', 'STATE', 'LEFT TODAY', 'LAST USED'],
      ['Partner Inc.', 'pro', 'active', '9,412', '11 min ago'],
      ['B', 'pro', 'banned for 4 min', '0', '11 min ago'],
      ['C', 'pro', 'expired 5 h ago', '9,412', 'never'],
      ['D', 'pro', 'revoked 40 s ago', '-', '11 min ago'],
      ['E', 'pro', 'active for 2 d', '9,412', '11 min ago'],
    ]);
    expect(new Set(rows.map((row) => row.search(/ (?:ID|1{8}-\S+)$/))).size).toBe(1);
  });

  it('fits 80 columns with the widest values of every column, and shortens the name', () => {
    const widest = buildView({
      name: 'A partner with a name of more than thirty characters',
      plan: 'enterprise',
      state: 'revoked',
      revokedAt: at('2026-11-21T11:01:20Z'),
      requestsLeftToday: 2_147_483_647,
      lastUsedAt: at('2026-11-21T11:01:20Z'),
    });
    const rows = keyTable([widest], 80).split('\n');
    expect(Math.max(...rows.map(({ length }) => length))).toBe(80);
    expect(rows[1]).toMatch(
      /^A partner .*… {2}enterprise {2}revoked 58 min ago {2}2,147,483,647 {2}58 min ago {2}1{8}$/,
    );
  });

  it('shows whole names in a pipe and on a wide terminal, and whole ids in a pipe', () => {
    const name = 'A partner with a name of more than thirty characters, and as many again behind it';
    const view = buildView({ name });
    expect(keyTable([view])).toContain(`${name}  pro`);
    expect(keyTable([view])).toMatch(new RegExp(` ${view.id}$`));
    expect(keyTable([view], 200)).toContain(`${name}  pro`);
    expect(keyTable([view], 200)).toMatch(/ 1{8}$/);
  });

  it('aligns names with wide characters, emoji and combining marks, and cuts none of them in half', () => {
    const names = ['株式会社ペットストア', 'Zoe\u0301 👩‍🚀 pets', 'ペ'.repeat(40)];
    const rows = keyTable(
      names.map((name) => buildView({ name })),
      80,
    ).split('\n');
    // In columns of the terminal, of which a character of East Asia or an emoji takes two.
    const width = rows[0]!.indexOf('PLAN');
    const cut = Math.floor((width - 3) / 2);
    expect(cut).toBeGreaterThan(10);
    expect(rows[1]).toMatch(new RegExp(`^${names[0]} {${width - 20}}pro `));
    expect(rows[2]).toMatch(new RegExp(`^${names[1]} {${width - 11}}pro `));
    expect(rows[3]).toMatch(new RegExp(`^ペ{${cut}}… {${width - 2 * cut - 1}}pro `));
  });

  it('shows as many characters of the ids as tell them apart', () => {
    const ids = ['11111111-1111-4111-8111-111111111111', '11111111-1211-4111-8111-111111111111'];
    const rows = keyTable(
      ids.map((id) => buildView({ id })),
      80,
    ).split('\n');
    expect(rows.slice(1).map((row) => row.split(/ +/).at(-1))).toEqual(['11111111-11', '11111111-12']);
  });
});

describe('keyDetails', () => {
  it('shows each time as a date and relative to now', () => {
    expect(keyDetails(buildView({ expiresAt: at('2026-11-23T12:00:00Z') })).split('\n')).toEqual([
      'id            11111111-1111-4111-8111-111111111111',
      'name          Partner Inc.',
      'key           pst_abcdef…',
      'plan          pro: 300 requests per minute, 10,000 per day',
      'state         active for 2 d',
      'left today    9,412 of 10,000',
      'last used     2026-11-21 11:48Z (11 min ago)',
      'created       2026-11-18 12:00Z (3 d ago)',
      'expires       2026-11-23 12:00Z (in 2 d)',
    ]);
  });

  it('shows when a key was revoked and when a ban ends', () => {
    const revoked = keyDetails(buildView({ state: 'revoked', revokedAt: at('2026-11-20T12:00:00Z') }));
    expect(revoked).toContain('state         revoked 1 d ago\n');
    expect(revoked).toContain('\nrevoked       2026-11-20 12:00Z (1 d ago)');
    const banned = keyDetails(buildView({ state: 'banned', bannedUntil: at('2026-11-21T12:05:00Z') }));
    expect(banned).toContain('state         banned for 5 min\n');
    expect(banned).toContain('\nbanned until  2026-11-21 12:05Z (in 5 min)');
  });
});
