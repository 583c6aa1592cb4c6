import { styleText } from 'node:util';
import type { KeyView } from './key-view.js';
import { count, span } from './wording.js';

const COLUMN_GAP = '  ';

type Style = Parameters<typeof styleText>[0];

const STATE_STYLES: Readonly<Record<KeyView['state'], Style>> = {
  active: 'green',
  banned: 'yellow',
  expired: 'red',
  revoked: 'red',
};

/** A column: title, text and, on a terminal with colours, style. */
interface Column {
  readonly title: string;
  readonly text: (key: KeyView, nowMs: number) => string;
  readonly style?: (key: KeyView) => Style;
}

const COLUMNS: readonly Column[] = [
  { title: 'NAME', text: ({ name }) => name, style: () => 'bold' },
  { title: 'PLAN', text: ({ plan }) => plan },
  { title: 'STATE', text: stateOf, style: ({ state }) => STATE_STYLES[state] },
  { title: 'LEFT TODAY', text: leftToday },
  { title: 'LAST USED', text: ({ lastUsedAt }, nowMs) => (lastUsedAt === null ? 'never' : ago(lastUsedAt, nowMs)) },
  { title: 'AGE', text: ({ createdAt }, nowMs) => span(nowMs - createdAt.getTime()) },
  { title: 'KEY', text: ({ keyPrefix }) => `${keyPrefix}…` },
  { title: 'ID', text: ({ id }) => id },
];

/** Formats keys as a table. */
export function keyTable(keys: readonly KeyView[], nowMs: number): string {
  if (keys.length === 0) {
    return 'There are no keys yet. Run "petstore keys issue --name NAME --plan PLAN" to issue one.';
  }
  const columns = COLUMNS.map(({ title, text, style }) => {
    const texts = keys.map((key) => text(key, nowMs));
    const width = Math.max(title.length, ...texts.map(({ length }) => length));
    const cells = keys.map((key, row) => paint(style?.(key), (texts[row] ?? '').padEnd(width)));
    return [paint('dim', title.padEnd(width)), ...cells];
  });
  return [-1, ...keys.keys()]
    .map((row) => columns.map((cells) => cells[row + 1]).join(COLUMN_GAP))
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Formats one key, one line per property. */
export function keyDetails(key: KeyView, nowMs: number): string {
  const timeAndDistance = (time: Date | null, otherwise: string): string =>
    time === null
      ? otherwise
      : `${minuteOf(time)} (${time.getTime() > nowMs ? `in ${distance(time, nowMs)}` : ago(time, nowMs)})`;
  const lines: [string, string][] = [
    ['id', key.id],
    ['name', paint('bold', key.name)],
    ['key', `${key.keyPrefix}…`],
    ['plan', `${key.plan}: ${count(key.requestsPerMinute)} requests per minute, ${count(key.requestsPerDay)} per day`],
    ['state', paint(STATE_STYLES[key.state], stateOf(key, nowMs))],
    ['left today', leftToday(key)],
    ['last used', timeAndDistance(key.lastUsedAt, 'never')],
    ['created', timeAndDistance(key.createdAt, '')],
    ['expires', timeAndDistance(key.expiresAt, 'never')],
    ...(key.revokedAt === null ? [] : [['revoked', timeAndDistance(key.revokedAt, '')] satisfies [string, string]]),
    ...(key.bannedUntil === null
      ? []
      : [['banned until', timeAndDistance(key.bannedUntil, '')] satisfies [string, string]]),
  ];
  return lines.map(([label, value]) => `${paint('dim', label.padEnd(14))}${value}`).join('\n');
}

/** Colours on a terminal only, and not with NO_COLOR; `styleText` checks both. */
function paint(style: Style | undefined, text: string): string {
  return style === undefined ? text : styleText(style, text, { stream: process.stdout });
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
