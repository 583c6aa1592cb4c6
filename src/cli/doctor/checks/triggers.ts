import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { error, ok } from '../finding.js';
import { list } from '../wording.js';

export const triggers: Check = {
  name: 'triggers',
  evaluate: ({ schema }) =>
    ifKnown(schema, ({ disabledTriggers, hasRowSecurity }) => {
      if (disabledTriggers.length > 0) {
        return error(
          `disabled or missing: ${list(disabledTriggers)}`,
          'Enable them with ALTER TABLE … ENABLE ALWAYS TRIGGER (ENABLE TRIGGER for api_keys), and restart the service: ' +
            'it has not noticed changes and may serve an outdated list.',
        );
      }
      return hasRowSecurity
        ? error(
            'row-level security is enabled for orders',
            'Run ALTER TABLE orders DISABLE ROW LEVEL SECURITY: a policy that hides rows makes every list fail.',
          )
        : ok('enabled');
    }),
};
