import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { ok, warning } from '../finding.js';

export const pooler: Check = {
  name: 'pooler',
  evaluate: ({ server }) =>
    ifKnown(server, ({ isPooled }) =>
      isPooled
        ? warning(
            'a connection pooler is in front of PostgreSQL',
            'It must use session mode: the service uses LISTEN and prepared statements (docs/operations.md).',
          )
        : ok('none'),
    ),
};
