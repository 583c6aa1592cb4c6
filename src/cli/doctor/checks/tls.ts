import type { Check } from '../check.js';
import type { EndpointFacts } from '../facts.js';
import { type Finding, notChecked, ok, warning } from '../finding.js';

const UNSAFE: Readonly<Record<Exclude<EndpointFacts['encryption'], 'verified'>, string>> = {
  none: 'not encrypted',
  unverified: 'encrypted without verifying the certificate',
};

export const tls: Check = {
  name: 'TLS',
  evaluate: ({ endpoints }): Finding => {
    if (endpoints.length === 0) {
      return notChecked('no server is configured');
    }
    const details = endpoints.map(
      ({ name, encryption, isNearby }) =>
        `${name}: ${encryption === 'verified' ? 'encrypted' : UNSAFE[encryption]}${isNearby ? ', private network' : ''}`,
    );
    const unsafe = endpoints.flatMap(({ name, encryption, isNearby }) =>
      encryption === 'verified' || isNearby ? [] : [`${name} ${UNSAFE[encryption]}`],
    );
    return unsafe.length === 0
      ? ok(details.join('; '))
      : warning(
          unsafe.join('; '),
          'Use sslmode=verify-full in DATABASE_URL, rediss: in REDIS_URL and https: in public URLs.',
          details,
        );
  },
};
