/** The configuration has faults; each names the variable, what is wrong with it and what would be right. */
export class ConfigurationError extends Error {
  constructor(readonly faults: readonly string[]) {
    super(
      `The configuration has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`,
    );
    this.name = 'ConfigurationError';
  }
}
