import { lookup } from 'node:dns/promises';
import ipaddr from 'ipaddr.js';
import pg from 'pg';
import { withDeadline } from '../../../common/deadline.js';
import type { Config } from '../../../config/config.js';
import type { EndpointFacts } from '../facts.js';

const LOOKUP_TIMEOUT_MS = 3_000;

/** Reads from the URLs whether each connection is encrypted, and whether it leaves the private network. */
export async function collectEndpoints(config: Config): Promise<EndpointFacts[]> {
  const { databaseUrl, databaseDirectUrl, databaseReplicaUrl, redisUrls, publicBaseUrl } = config;
  const endpoints = Object.entries({
    PostgreSQL: databaseUrl,
    'direct PostgreSQL': databaseDirectUrl,
    'PostgreSQL replica': databaseReplicaUrl,
  }).flatMap(([name, url]) => (url === undefined ? [] : [databaseEndpoint(name, url)]));
  const [redisUrl] = redisUrls;
  if (redisUrl !== undefined) {
    endpoints.push(urlEndpoint('Redis', redisUrl));
  }
  if (publicBaseUrl !== undefined) {
    endpoints.push(urlEndpoint('PUBLIC_BASE_URL', publicBaseUrl));
  }
  return Promise.all(endpoints);
}

async function databaseEndpoint(name: string, connectionString: string): Promise<EndpointFacts> {
  const { ssl, host } = new pg.Client({ connectionString });
  // The type says boolean; sslmode=no-verify and sslmode=require with libpq rules make it an object.
  const options: unknown = ssl;
  const isUnverified =
    typeof options === 'object' && (options as { rejectUnauthorized?: boolean } | null)?.rejectUnauthorized === false;
  const encrypted = isUnverified ? 'unverified' : 'verified';
  return { name, encryption: ssl ? encrypted : 'none', isNearby: await isNearby(host) };
}

async function urlEndpoint(name: string, url: string): Promise<EndpointFacts> {
  const { protocol, hostname } = new URL(url);
  const isEncrypted = protocol === 'rediss:' || protocol === 'https:';
  return {
    name,
    encryption: isEncrypted ? 'verified' : 'none',
    isNearby: await isNearby(hostname.replace(/^\[(.*)\]$/, '$1')),
  };
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
