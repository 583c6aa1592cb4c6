import type { Check } from '../check.js';
import { error, ok } from '../finding.js';

export const configuration: Check = {
  name: 'configuration',
  evaluate: ({ configuration: { config, problems } }) =>
    problems.length === 0
      ? ok(`valid, for ${config.production ? 'production' : 'development'}`)
      : error(
          problems.length === 1 ? 'a variable is invalid' : `${problems.length} variables are invalid`,
          'Correct them; .env.example describes every variable. The service does not start until then.',
          problems,
        ),
};
