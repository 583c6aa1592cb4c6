import type { Check } from '../check.js';
import { error, notChecked, ok, warning } from '../finding.js';
import { list } from '../wording.js';

export const redis: Check = {
  name: 'Redis',
  evaluate: ({ redis: nodes, server, configuration }) => {
    if (configuration.config.redisUrls.length === 0 && !configuration.invalid.has('REDIS_URL')) {
      const processes = 'value' in server ? server.value.processes : 0;
      return processes > 1
        ? warning(
            `not configured, and ${processes} processes count limits separately`,
            'Set REDIS_URL: a caller can use its quota once per process otherwise.',
          )
        : ok('not configured: each process counts limits in its own memory');
    }
    if (!('value' in nodes)) {
      return nodes.finding ?? notChecked(nodes.reason);
    }
    const replicas = nodes.value.filter(({ isReplica }) => isReplica);
    if (replicas.length > 0) {
      return error(
        `${list(replicas.map(({ address }) => address))} is a replica, which is read-only`,
        'Set REDIS_URL to the primary; the service counts in its own memory meanwhile.',
      );
    }
    const [first] = nodes.value;
    return nodes.value.length === 1
      ? ok(`${first?.version ?? ''} at ${first?.address ?? ''}`)
      : ok(`cluster of ${nodes.value.length} primaries, ${first?.version ?? ''}`);
  },
};
