import { readFileSync } from 'node:fs';
import { SETTINGS, type Variable } from './environment-variables.js';

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

/** Variables, and groups of them. */
interface Settings {
  readonly [name: string]: Variable<unknown> | Settings;
}

/**
 * Reads and validates the whole configuration. An empty variable counts as not set.
 * @throws {ConfigurationError} that lists every problem
 */
export function loadConfig(variables: NodeJS.ProcessEnv): Config {
  const problems: string[] = [];
  const config = valuesOf(SETTINGS, variables, problems) as Config;
  const isGiven = config.databaseUrl !== undefined || problems.some((problem) => problem.startsWith('DATABASE_URL'));
  if (config.production && !isGiven) {
    problems.push(
      'DATABASE_URL (or DATABASE_URL_FILE) must be set in production, a URL like postgresql://user:password@host:5432/database',
    );
  }
  if (problems.length === 0 && config.metricsPort !== 0 && config.metricsPort === config.port) {
    problems.push(`METRICS_PORT must differ from PORT (both are ${config.port})`);
  }
  if (problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  return config;
}

function valuesOf(settings: Settings, variables: NodeJS.ProcessEnv, problems: string[]): Record<string, unknown> {
  const values = Object.entries(settings).map(([name, setting]) => [
    name,
    isVariable(setting) ? valueOf(setting, variables, problems) : valuesOf(setting, variables, problems),
  ]);
  return Object.fromEntries(values) as Record<string, unknown>;
}

function isVariable(setting: Variable<unknown> | Settings): setting is Variable<unknown> {
  return typeof setting.read === 'function';
}

function valueOf(variable: Variable<unknown>, variables: NodeJS.ProcessEnv, problems: string[]): unknown {
  const { name, expected, read, otherwise, secret } = variable;
  const given = textIn(variables, name);
  const file = secret === 'file' ? textIn(variables, `${name}_FILE`) : undefined;
  if (given !== undefined && file !== undefined) {
    problems.push(`${name} and ${name}_FILE are both set; set one of them`);
  }
  const text = given ?? (file === undefined ? undefined : textOfFile(`${name}_FILE`, file, problems));
  if (text === undefined) {
    return otherwise;
  }
  const value = read(text);
  if (value === undefined) {
    problems.push(`${name} must be ${expected}${secret === undefined ? ` (got "${text}")` : ''}`);
  }
  return value ?? otherwise;
}

function textIn(variables: NodeJS.ProcessEnv, name: string): string | undefined {
  return variables[name] === '' ? undefined : variables[name];
}

function textOfFile(name: string, path: string, problems: string[]): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    // The secret itself may have been set by mistake.
    const given = path.includes('://') ? 'got a URL' : `got "${path}": ${reason}`;
    problems.push(`${name} must be the path of a readable file (${given})`);
    return undefined;
  }
}
