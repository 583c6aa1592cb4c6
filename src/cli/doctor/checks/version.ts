import { POSTGRES_VERSION_MIN } from '../../../database/check-server.js';
import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { error, ok } from '../finding.js';

export const version: Check = {
  name: 'PostgreSQL version',
  evaluate: ({ server }) =>
    ifKnown(server, ({ version: text, versionNumber }) =>
      Math.floor(versionNumber / 10_000) >= POSTGRES_VERSION_MIN
        ? ok(text)
        : error(`${text} is too old`, `Upgrade PostgreSQL to ${POSTGRES_VERSION_MIN} or newer.`),
    ),
};
