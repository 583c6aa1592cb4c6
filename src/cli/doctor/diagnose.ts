import { type Clock, systemClock } from '../../common/clock.js';
import { configurationFinding, readConfiguration } from './configuration.js';
import { checkDatabase } from './database.js';
import type { Finding, Status } from './finding.js';
import { checkHost } from './host.js';
import { checkOtherServers, checkTls } from './other-servers.js';
import { checkRedis, withoutRedisFinding } from './redis.js';

export interface CheckResult extends Finding {
  readonly name: string;
}

export interface Diagnosis {
  readonly status: Exclude<Status, 'skipped'>;
  readonly checks: readonly CheckResult[];
}

/**
 * Runs all checks within 15 seconds, whatever hangs. Changes nothing.
 * @param variables the environment of the service
 */
export async function diagnose(variables: NodeJS.ProcessEnv, clock: Clock = systemClock): Promise<Diagnosis> {
  const configuration = readConfiguration(variables);
  const { config, invalid } = configuration;
  const [database, otherServers, redis, tls, host] = await Promise.all([
    checkDatabase(configuration, clock),
    checkOtherServers(config),
    checkRedis(configuration, clock),
    checkTls(config),
    checkHost(configuration),
  ]);
  if (config.redisUrls.length === 0 && !invalid.has('REDIS_URL')) {
    redis.Redis = withoutRedisFinding(database.processes);
  }
  const findings = {
    configuration: configurationFinding(configuration),
    ...database.findings,
    'other servers': otherServers,
    ...redis,
    TLS: tls,
    ...host,
  };
  const checks = Object.entries(findings).map(([name, finding]) => ({ name, ...finding }));
  const worst = (['error', 'warning'] as const).find((status) => checks.some((check) => check.status === status));
  return { status: worst ?? 'ok', checks };
}
