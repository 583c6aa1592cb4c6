import type { Check } from '../check.js';
import { notChecked, ok, warning } from '../finding.js';

/** The servers of DATABASE_DIRECT_URL and DATABASE_REPLICA_URL; the service runs without them. */
export const otherServers: Check = {
  name: 'other servers',
  evaluate: ({ otherServers: servers }) => {
    const problems = servers.flatMap(({ variable, problem }) =>
      problem === undefined ? [] : [`${variable}: ${problem}`],
    );
    if (problems.length > 0) {
      return warning(
        problems.join('; '),
        'Correct the URL or start the server. Without the direct one, revoked keys take effect late; without the replica, lists are read from the primary.',
      );
    }
    return servers.length === 0
      ? notChecked('neither DATABASE_DIRECT_URL nor DATABASE_REPLICA_URL is set')
      : ok(servers.map(({ variable, address }) => `${variable} leads to ${address}`).join(', '));
  },
};
