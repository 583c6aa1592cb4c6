import { connectionsPerProcess } from '../../../database/pools.js';
import type { Check } from '../check.js';
import { ifKnown } from '../facts.js';
import { error, notChecked, ok, warning } from '../finding.js';

/** For `petstore` commands, migrations and an operator's psql. */
const COMMAND_CONNECTIONS = 10;

export const connections: Check = {
  name: 'connection limit',
  evaluate: ({ server, configuration: { config } }) =>
    ifKnown(server, ({ connectionLimit, processes, isPooled }) => {
      if (isPooled) {
        return notChecked('the pooler limits the connections');
      }
      const perProcess = connectionsPerProcess(config);
      const running = Math.max(1, processes);
      // One more process runs during a rolling update.
      const needed = (running + 1) * perProcess + COMMAND_CONNECTIONS;
      const figures = `${connectionLimit} connections for ${processes} running (${perProcess} each)`;
      if (connectionLimit >= needed) {
        return ok(figures);
      }
      const remedy = `Raise max_connections (or the CONNECTION LIMIT of the role or database) so that ${needed} are available, or lower LIST_CONCURRENCY.`;
      return connectionLimit < running * perProcess
        ? error(`only ${figures}`, remedy)
        : warning(`${figures} leave too few for a rolling update`, remedy);
    }),
};
