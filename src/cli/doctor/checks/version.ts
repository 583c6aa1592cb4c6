import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { error, ok } from '../finding.js';

const OLDEST_SUPPORTED = 14;

export const version: Check = {
  name: 'PostgreSQL version',
  evaluate: ({ server }) =>
    ifKnown(server, ({ version: text, versionNumber }) =>
      Math.floor(versionNumber / 10_000) >= OLDEST_SUPPORTED
        ? ok(text)
        : error(`${text} is too old`, `Upgrade PostgreSQL to ${OLDEST_SUPPORTED} or newer.`),
    ),
};
