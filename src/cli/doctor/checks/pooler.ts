import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { error, ok, warning } from '../finding.js';

export const pooler: Check = {
  name: 'pooler',
  evaluate: ({ server, configuration: { config } }) =>
    ifKnown(server, ({ isPooled, startProblems }) => {
      if (!isPooled) {
        return config.transactionPooler
          ? warning(
              'none, although DATABASE_POOLER is set',
              'Remove DATABASE_POOLER: its transactions cost every statement two round trips.',
            )
          : ok('none');
      }
      if (config.transactionPooler) {
        return ok('transaction pooling');
      }
      return startProblems.length === 0
        ? ok('session pooling')
        : error(
            'a pooler in front of PostgreSQL does not keep connections',
            'Correct it; the service does not start.',
            startProblems,
          );
    }),
};
