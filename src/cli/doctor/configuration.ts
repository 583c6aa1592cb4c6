import { type Config, ConfigurationError } from '../../config/config.js';
import { loadConfig } from '../../config/load-config.js';
import { error, type Finding, ok } from './finding.js';

export interface Configuration {
  readonly problems: readonly string[];
  /** The configuration without the invalid variables, which have their defaults. */
  readonly config: Config;
  readonly invalid: ReadonlySet<string>;
}

export function configurationFinding({ config, problems }: Configuration): Finding {
  return problems.length === 0
    ? ok(`valid, for ${config.production ? 'production' : 'development'}`)
    : error(
        problems.length === 1 ? 'a variable is invalid' : `${problems.length} variables are invalid`,
        'Correct them; .env.example describes every variable. The service does not start until then.',
        problems,
      );
}

/** Reads the configuration as the service does. With invalid variables, the others are used for the remaining checks. */
export function readConfiguration(variables: NodeJS.ProcessEnv): Configuration {
  try {
    return { problems: [], config: loadConfig(variables), invalid: new Set() };
  } catch (error) {
    if (!(error instanceof ConfigurationError)) {
      throw error;
    }
    const { usable, invalid } = separate(variables);
    return { problems: error.problems, config: loadConfig(usable), invalid };
  }
}

/** Adds the variables one by one, and keeps those with which the configuration stays valid. */
function separate(variables: NodeJS.ProcessEnv): { usable: NodeJS.ProcessEnv; invalid: Set<string> } {
  let usable: NodeJS.ProcessEnv = {};
  // In production a missing DATABASE_URL makes every other variable look invalid.
  const { NODE_ENV, ...others } = variables;
  // A secret and its file belong together.
  const rest = new Set(Object.keys(others).map((name) => name.replace(/_FILE$/, '')));
  for (let sizeBefore = -1; sizeBefore !== rest.size;) {
    // Again for variables that are valid only together with a later one, such as PORT with METRICS_PORT.
    sizeBefore = rest.size;
    for (const name of rest) {
      const candidate = { ...usable, [name]: others[name], [`${name}_FILE`]: others[`${name}_FILE`] };
      if (isValid(candidate)) {
        usable = candidate;
        rest.delete(name);
      }
    }
  }
  if (NODE_ENV === 'production') {
    if (isValid({ ...usable, NODE_ENV })) {
      usable = { ...usable, NODE_ENV };
    } else {
      rest.add('DATABASE_URL');
    }
  }
  return { usable, invalid: rest };
}

function isValid(variables: NodeJS.ProcessEnv): boolean {
  try {
    loadConfig(variables);
    return true;
  } catch {
    return false;
  }
}
