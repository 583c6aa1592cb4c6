import { type Config, ConfigurationError, loadConfig } from '../../config/config.js';
import { error, ok, type Results } from './check.js';
import { checkDatabase } from './database.js';
import { checkRedis } from './redis.js';

/** @param variables the environment of the service */
export async function runChecks(variables: NodeJS.ProcessEnv): Promise<Results> {
  let config: Config;
  try {
    config = loadConfig(variables);
  } catch (failure) {
    if (!(failure instanceof ConfigurationError)) {
      throw failure;
    }
    const remedy = 'Correct them, as .env.example describes, and check again. The service does not start until then.';
    return { configuration: error(failure.problems.join('; '), remedy) };
  }
  const [database, Redis] = await Promise.all([checkDatabase(config), checkRedis(config)]);
  return {
    configuration: ok(`valid, for ${config.production ? 'production' : 'development'}`),
    ...database,
    Redis,
  };
}
