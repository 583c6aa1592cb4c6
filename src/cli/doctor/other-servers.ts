import { lookup } from 'node:dns/promises';
import ipaddr from 'ipaddr.js';
import pg from 'pg';
import { asError } from '../../common/as-error.js';
import { withDeadline } from '../../common/deadline.js';
import type { Config } from '../../config/config.js';
import { messageOf } from '../report-error.js';
import { type Finding, notChecked, ok, warning } from './finding.js';

const CONNECT_TIMEOUT_MS = 5_000;
const LOOKUP_TIMEOUT_MS = 3_000;

/** Connects to the servers of DATABASE_DIRECT_URL and DATABASE_REPLICA_URL; the service runs without them. */
export async function checkOtherServers({ databaseDirectUrl, databaseReplicaUrl }: Config): Promise<Finding> {
  const urls = { DATABASE_DIRECT_URL: databaseDirectUrl, DATABASE_REPLICA_URL: databaseReplicaUrl };
  const servers = Object.entries(urls).flatMap(([variable, url]) =>
    url === undefined ? [] : [inspect(variable, url, variable === 'DATABASE_REPLICA_URL')],
  );
  return otherServersFinding(await Promise.all(servers));
}

interface OtherServer {
  readonly variable: string;
  readonly address: string;
  /** Undefined when it can be used. */
  readonly problem: string | undefined;
}

export function otherServersFinding(servers: readonly OtherServer[]): Finding {
  const problems = servers.flatMap(({ variable, problem }) =>
    problem === undefined ? [] : [`${variable}: ${problem}`],
  );
  if (problems.length > 0) {
    return warning(
      problems.join('; '),
      'Correct the URL or start the server. Without the direct one, revoked keys take effect late; without the replica, lists are read from the primary.',
    );
  }
  return servers.length === 0
    ? notChecked('neither DATABASE_DIRECT_URL nor DATABASE_REPLICA_URL is set')
    : ok(servers.map(({ variable, address }) => `${variable} leads to ${address}`).join(', '));
}

async function inspect(variable: string, connectionString: string, isReplica: boolean): Promise<OtherServer> {
  const db = new pg.Client({
    connectionString,
    application_name: 'petstore-doctor',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: CONNECT_TIMEOUT_MS,
  });
  db.on('error', () => undefined);
  const address = `${db.host}:${db.port}`;
  try {
    await withDeadline(db.connect(), CONNECT_TIMEOUT_MS);
    const { rows } = await db.query<{ isStandby: boolean }>('SELECT pg_is_in_recovery() AS "isStandby"');
    const isStandby = rows[0]?.isStandby === true;
    const expected = isReplica ? 'a standby' : 'the primary';
    return { variable, address, problem: isStandby === isReplica ? undefined : `${address} is not ${expected}` };
  } catch (error) {
    return { variable, address, problem: `${address} is unreachable (${messageOf(asError(error))})` };
  } finally {
    db.connection.stream.destroy();
  }
}

/** A server that the service connects to, or the address that clients use. */
interface Endpoint {
  readonly name: string;
  readonly encryption: 'encrypted' | 'not encrypted' | 'encrypted without verifying the certificate';
  /** On this host or in a private network. */
  readonly isNearby: boolean;
}

/** Reads from the URLs whether each connection is encrypted, and whether it leaves the private network. */
export async function checkTls(config: Config): Promise<Finding> {
  const { databaseUrl, databaseDirectUrl, databaseReplicaUrl, redisUrls, publicBaseUrl } = config;
  const databases = {
    PostgreSQL: databaseUrl,
    'direct PostgreSQL': databaseDirectUrl,
    'PostgreSQL replica': databaseReplicaUrl,
  };
  const others = { Redis: redisUrls[0], PUBLIC_BASE_URL: publicBaseUrl };
  const endpoints = [
    ...Object.entries(databases).map(([name, url]) => url !== undefined && databaseEndpoint(name, url)),
    ...Object.entries(others).map(([name, url]) => url !== undefined && urlEndpoint(name, url)),
  ];
  return tlsFinding(await Promise.all(endpoints.filter((endpoint) => endpoint !== false)));
}

export function tlsFinding(endpoints: readonly Endpoint[]): Finding {
  if (endpoints.length === 0) {
    return notChecked('no server is configured');
  }
  const details = endpoints.map(
    ({ name, encryption, isNearby }) => `${name}: ${encryption}${isNearby ? ', private network' : ''}`,
  );
  const unsafe = endpoints.filter(({ encryption, isNearby }) => encryption !== 'encrypted' && !isNearby);
  return unsafe.length === 0
    ? ok(details.join('; '))
    : warning(
        unsafe.map(({ name, encryption }) => `${name} ${encryption}`).join('; '),
        'Use sslmode=verify-full in DATABASE_URL, rediss: in REDIS_URL and https: in public URLs.',
        details,
      );
}

async function databaseEndpoint(name: string, connectionString: string): Promise<Endpoint> {
  const { ssl, host } = new pg.Client({ connectionString });
  // The type says boolean; sslmode=no-verify and sslmode=require with libpq rules make it an object.
  const options: unknown = ssl;
  const isUnverified =
    typeof options === 'object' && (options as { rejectUnauthorized?: boolean } | null)?.rejectUnauthorized === false;
  const encrypted = isUnverified ? 'encrypted without verifying the certificate' : 'encrypted';
  return { name, encryption: ssl ? encrypted : 'not encrypted', isNearby: await isNearby(host) };
}

async function urlEndpoint(name: string, url: string): Promise<Endpoint> {
  const { protocol, hostname } = new URL(url);
  const isEncrypted = protocol === 'rediss:' || protocol === 'https:';
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return { name, encryption: isEncrypted ? 'encrypted' : 'not encrypted', isNearby: await isNearby(host) };
}

async function isNearby(host: string): Promise<boolean> {
  if (host.startsWith('/')) {
    return true;
  }
  try {
    const { address } = await withDeadline(lookup(host), LOOKUP_TIMEOUT_MS);
    return ['loopback', 'private', 'uniqueLocal', 'linkLocal'].includes(ipaddr.process(address).range());
  } catch {
    // An unknown host is reported by the check of its server.
    return true;
  }
}
