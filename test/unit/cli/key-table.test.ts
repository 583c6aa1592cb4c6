import { keyDetails, keyTable } from '../../../src/cli/key-table.js';
import type { KeyView } from '../../../src/cli/key-view.js';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const at = (time: string): Date => new Date(time);

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
    const rows = keyTable(keys, NOW).split('\n');
    expect(rows.map((row) => row.split(/ {2,}/).slice(0, 6))).toEqual([
      ['NAME', 'PLAN', 'STATE', 'LEFT TODAY', 'LAST USED', 'AGE'],
      ['Partner Inc.', 'pro', 'active', '9,412 of 10,000', '11 min ago', '3 d'],
      ['B', 'pro', 'banned for 4 min', '0 of 10,000', '11 min ago', '3 d'],
      ['C', 'pro', 'expired 5 h ago', '9,412 of 10,000', 'never', '3 d'],
      ['D', 'pro', 'revoked 40 s ago', '-', '11 min ago', '3 d'],
      ['E', 'pro', 'active for 2 d', '9,412 of 10,000', '11 min ago', '3 d'],
    ]);
    expect(new Set(rows.map((row) => row.search(/ (?:ID|1{8}-\S+)$/))).size).toBe(1);
  });
});

describe('keyDetails', () => {
  it('shows each time as a date and relative to now', () => {
    expect(keyDetails(buildView({ expiresAt: at('2026-11-23T12:00:00Z') }), NOW).split('\n')).toEqual([
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
    const revoked = keyDetails(buildView({ state: 'revoked', revokedAt: at('2026-11-20T12:00:00Z') }), NOW);
    expect(revoked).toContain('state         revoked 1 d ago\n');
    expect(revoked).toContain('\nrevoked       2026-11-20 12:00Z (1 d ago)');
    const banned = keyDetails(buildView({ state: 'banned', bannedUntil: at('2026-11-21T12:05:00Z') }), NOW);
    expect(banned).toContain('state         banned for 5 min\n');
    expect(banned).toContain('\nbanned until  2026-11-21 12:05Z (in 5 min)');
  });
});
