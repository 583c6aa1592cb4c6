import type { KeyView } from './key-view.js';
import { type Column, idColumn, paint, type Style, textTable } from './text-table.js';
import { count, span } from './wording.js';

const STATE_STYLES: Readonly<Record<KeyView['state'], Style>> = {
  active: 'green',
  banned: 'yellow',
  expired: 'red',
  revoked: 'red',
};

/** Formats keys as a table. */
export function keyTable(keys: readonly KeyView[], nowMs: number): string {
  if (keys.length === 0) {
    return 'There are no keys yet. Run "petstore keys issue --name NAME --plan PLAN" to issue one.';
  }
  const columns: Column<KeyView>[] = [
    { title: 'NAME', text: ({ name }) => name, style: () => 'bold', shortened: true },
    { title: 'PLAN', text: ({ plan }) => plan },
    { title: 'STATE', text: (key) => stateOf(key, nowMs), style: ({ state }) => STATE_STYLES[state] },
    {
      title: 'LEFT TODAY',
      text: ({ requestsLeftToday }) => (requestsLeftToday === null ? '-' : count(requestsLeftToday)),
      align: 'right',
    },
    { title: 'LAST USED', text: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : ago(lastUsedAt, nowMs)) },
    idColumn(keys),
  ];
  return textTable(columns, keys);
}

/** Formats one key, one line per property. */
export function keyDetails(key: KeyView, nowMs: number): string {
  const timeAndDistance = (time: Date | null): string | null =>
    time === null
      ? null
      : `${minuteOf(time)} (${time.getTime() > nowMs ? `in ${distance(time, nowMs)}` : ago(time, nowMs)})`;
  const lines: [string, string | null][] = [
    ['id', key.id],
    ['name', paint('bold', key.name)],
    ['key', `${key.keyPrefix}…`],
    ['plan', `${key.plan}: ${count(key.requestsPerMinute)} requests per minute, ${count(key.requestsPerDay)} per day`],
    ['state', paint(STATE_STYLES[key.state], stateOf(key, nowMs))],
    ['left today', leftToday(key)],
    ['last used', timeAndDistance(key.lastUsedAt) ?? 'never'],
    ['created', timeAndDistance(key.createdAt)],
    ['expires', timeAndDistance(key.expiresAt) ?? 'never'],
    ['successor', key.successorId],
    ['revoked', timeAndDistance(key.revokedAt)],
    ['banned until', timeAndDistance(key.bannedUntil)],
  ];
  return lines
    .flatMap(([label, value]) => (value === null ? [] : [`${paint('dim', label.padEnd(14))}${value}`]))
    .join('\n');
}

function stateOf({ state, revokedAt, expiresAt, bannedUntil }: KeyView, nowMs: number): string {
  if (revokedAt !== null) {
    return `revoked ${ago(revokedAt, nowMs)}`;
  }
  if (state === 'banned' && bannedUntil !== null) {
    return `banned for ${distance(bannedUntil, nowMs)}`;
  }
  if (expiresAt === null) {
    return state;
  }
  return state === 'expired' ? `expired ${ago(expiresAt, nowMs)}` : `active for ${distance(expiresAt, nowMs)}`;
}

function leftToday({ requestsLeftToday, requestsPerDay }: KeyView): string {
  return requestsLeftToday === null ? '-' : `${count(requestsLeftToday)} of ${count(requestsPerDay)}`;
}

function ago(time: Date, nowMs: number): string {
  return `${distance(time, nowMs)} ago`;
}

function distance(time: Date, nowMs: number): string {
  return span(Math.abs(nowMs - time.getTime()));
}

function minuteOf(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace('T', ' ')}Z`;
}
