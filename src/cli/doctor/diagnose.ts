import { type Clock, systemClock } from '../../common/clock.js';
import { CHECKS } from './checks.js';
import { collectDatabase } from './collect/database.js';
import { collectDisk } from './collect/disk.js';
import { collectEndpoints } from './collect/endpoints.js';
import { collectMetricsPort, collectPort } from './collect/ports.js';
import { collectOtherServers } from './collect/other-servers.js';
import { collectRedis } from './collect/redis.js';
import { readConfiguration } from './collect/configuration.js';
import type { Finding, Status } from './finding.js';

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
  const [database, otherServers, redis, endpoints, port, metricsPort, disk] = await Promise.all([
    collectDatabase(configuration, clock),
    collectOtherServers(configuration.config),
    collectRedis(configuration, clock),
    collectEndpoints(configuration.config),
    collectPort(configuration),
    collectMetricsPort(configuration),
    collectDisk(configuration),
  ]);
  const facts = { configuration, ...database, otherServers, redis, endpoints, port, metricsPort, disk };
  const checks = CHECKS.map(({ name, evaluate }) => ({ name, ...evaluate(facts) }));
  const worst = (['error', 'warning'] as const).find((status) => checks.some((check) => check.status === status));
  return { status: worst ?? 'ok', checks };
}
