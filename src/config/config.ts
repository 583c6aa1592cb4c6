import type { SETTINGS, Variable } from './settings.js';

/** Injection token of the {@link Config}. */
export const CONFIG = Symbol('config');

type ValueOf<Setting> =
  Setting extends Variable<infer Value> ? Value : { readonly [Name in keyof Setting]: ValueOf<Setting[Name]> };

/** The validated configuration of the service. It is read once, at start. */
export type Config = ValueOf<typeof SETTINGS>;

/** The configuration is invalid; each problem names the variable, gives its value and says what is expected. */
export class ConfigurationError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(`Invalid configuration:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'ConfigurationError';
  }
}
