import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { error, ok, warning } from '../finding.js';

export const pooler: Check = {
  name: 'pooler',
  evaluate: ({ server, configuration: { config } }) =>
    ifKnown(server, ({ isPooled, startProblems }) => {
      if (startProblems.length > 0) {
        return error(
          'a server, or a pooler in front of it, that the service rejects at start',
          'Correct it; the service does not start.',
          startProblems,
        );
      }
      if (!isPooled) {
        return config.transactionPooler
          ? warning(
              'none, although DATABASE_POOLER is set',
              'Remove DATABASE_POOLER: its transactions cost every statement two round trips.',
            )
          : ok('none');
      }
      return ok(config.transactionPooler ? 'transaction pooling' : 'session pooling');
    }),
};
