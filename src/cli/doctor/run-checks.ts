import { ConfigurationError, loadConfig } from '../../config/config.js';
import { error, ok, type Results } from './check.js';
import { checkDatabase } from './database.js';
import { checkHost } from './host.js';
import { checkRedis } from './redis.js';

/**
 * Runs all checks within 15 seconds, whatever hangs. Changes nothing.
 * @param variables the environment of the service
 */
export async function runChecks(variables: NodeJS.ProcessEnv): Promise<Results> {
  try {
    const config = loadConfig(variables);
    const configuration = ok(`valid, for ${config.production ? 'production' : 'development'}`);
    const found = [checkDatabase(config), checkRedis(config), checkHost(config)];
    return Object.assign({ configuration }, ...(await Promise.all(found))) as Results;
  } catch (failure) {
    if (!(failure instanceof ConfigurationError)) {
      throw failure;
    }
    const remedy = 'Correct them, as .env.example describes, and check again. The service does not start until then.';
    return { configuration: error(failure.problems.join('; '), remedy) };
  }
}
