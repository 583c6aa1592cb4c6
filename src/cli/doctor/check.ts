import type { Facts } from './facts.js';
import type { Finding } from './finding.js';

/** One line of the output. Checks are pure: they evaluate facts that were collected before. */
export interface Check {
  readonly name: string;
  readonly evaluate: (facts: Facts) => Finding;
}
