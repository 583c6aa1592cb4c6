import type { Check } from '../check.js';
import { type Facts, ifKnown, type Known, type PortFacts } from '../facts.js';
import { error, type Finding, ok, warning } from '../finding.js';

export const port = portCheck('port', 'PORT', ({ port: fact }) => fact);
export const metricsPort = portCheck('metrics port', 'METRICS_PORT', ({ metricsPort: fact }) => fact);

function portCheck(name: string, variable: string, factOf: (facts: Facts) => Known<PortFacts>): Check {
  return { name, evaluate: (facts) => ifKnown(factOf(facts), (fact) => evaluate(variable, fact)) };
}

function evaluate(variable: string, { address, listener }: PortFacts): Finding {
  switch (listener) {
    case 'none':
      return ok(`nothing listens on ${address}`);
    case 'service':
      return ok(`the service listens on ${address}`);
    case 'unready service':
      return warning(
        `the service on ${address} is not ready`,
        'Its database does not respond within a second, or it is stopping; read its log.',
      );
    case 'other':
      return error(
        `another program listens on ${address}`,
        `Set ${variable} to a free port, or stop the other program (find it with "ss -ltnp").`,
      );
  }
}
