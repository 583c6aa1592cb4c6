import type { Check } from './check.js';
import { databaseClock, redisClock } from './checks/clocks.js';
import { configuration } from './checks/configuration.js';
import { connections } from './checks/connections.js';
import { database } from './checks/database.js';
import { disk } from './checks/disk.js';
import { expiringKeys } from './checks/expiring-keys.js';
import { migrations } from './checks/migrations.js';
import { otherServers } from './checks/other-servers.js';
import { pooler } from './checks/pooler.js';
import { metricsPort, port } from './checks/ports.js';
import { redisMemory } from './checks/redis-memory.js';
import { redisPersistence } from './checks/redis-persistence.js';
import { redis } from './checks/redis.js';
import { role } from './checks/role.js';
import { tls } from './checks/tls.js';
import { triggers } from './checks/triggers.js';
import { version } from './checks/version.js';

/** All checks, in the order of the output. */
export const CHECKS: readonly Check[] = [
  configuration,
  database,
  version,
  migrations,
  triggers,
  role,
  connections,
  pooler,
  otherServers,
  databaseClock,
  redis,
  redisMemory,
  redisPersistence,
  redisClock,
  tls,
  port,
  metricsPort,
  disk,
  expiringKeys,
];
