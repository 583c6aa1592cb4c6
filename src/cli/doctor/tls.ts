import { lookup } from 'node:dns/promises';
import ipaddr from 'ipaddr.js';
import pg from 'pg';
import { withDeadline } from '../../common/deadline.js';
import type { Config } from '../../config/config.js';
import { ok, type Result, warning } from './check.js';

const LOOKUP_TIMEOUT_MS = 3_000;

/** Reads from the URLs whether each connection is encrypted, and whether it leaves the private network. */
export async function checkTls(config: Config): Promise<Result> {
  const urls = {
    DATABASE_URL: config.databaseUrl,
    DATABASE_DIRECT_URL: config.databaseDirectUrl,
    DATABASE_REPLICA_URL: config.databaseReplicaUrl,
    REDIS_URL: config.redisUrls[0],
    PUBLIC_BASE_URL: config.publicBaseUrl,
  };
  const configured = Object.entries(urls).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const unsafe = await Promise.all(
    configured.map(async ([variable, url]) => (isVerified(url) || (await isNearby(hostOf(url))) ? [] : [variable])),
  );
  return unsafe.flat().length === 0
    ? ok('every URL is encrypted, or leads into a private network')
    : warning(
        `not encrypted, or without verifying the certificate: ${unsafe.flat().join(', ')}`,
        'Use sslmode=verify-full for PostgreSQL, rediss: in REDIS_URL and https: in public URLs.',
      );
}

function isVerified(url: string): boolean {
  if (!url.startsWith('postgres')) {
    return /^(?:rediss|https):/.test(url);
  }
  // The type says boolean; sslmode=no-verify and sslmode=require with libpq rules make it an object.
  const ssl = new pg.Client(url).ssl as unknown as boolean | { rejectUnauthorized?: boolean };
  return typeof ssl === 'object' ? ssl.rejectUnauthorized !== false : ssl;
}

function hostOf(url: string): string {
  return url.startsWith('postgres') ? new pg.Client(url).host : new URL(url).hostname.replace(/^\[(.*)\]$/, '$1');
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
