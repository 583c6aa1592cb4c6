import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { ok, warning } from '../finding.js';

export const expiringKeys: Check = {
  name: 'expiring keys',
  evaluate: ({ expiringKeys: facts }) =>
    ifKnown(facts, ({ count, keys }) =>
      count === 0
        ? ok('none within 30 days')
        : warning(
            `${count} ${count === 1 ? 'key expires' : 'keys expire'} within 30 days`,
            'Issue successors with "petstore keys rotate ID" and hand them to their holders.',
            [
              ...keys.map(({ id, expiresAt }) => `${id} on ${expiresAt.toISOString().slice(0, 10)}`),
              ...(count > keys.length ? [`and ${count - keys.length} more: petstore keys list`] : []),
            ],
          ),
    ),
};
