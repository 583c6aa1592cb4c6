import pg from 'pg';
import { asError } from '../../../common/as-error.js';
import { withDeadline } from '../../../common/deadline.js';
import type { Config } from '../../../config/config.js';
import { messageOf } from '../../report-error.js';
import type { OtherServerFacts } from '../facts.js';

const TIMEOUT_MS = 5_000;

/** Connects to the servers that the service uses besides that of `DATABASE_URL`. */
export async function collectOtherServers({
  databaseDirectUrl,
  databaseReplicaUrl,
}: Config): Promise<OtherServerFacts[]> {
  const urls = { DATABASE_DIRECT_URL: databaseDirectUrl, DATABASE_REPLICA_URL: databaseReplicaUrl };
  return Promise.all(
    Object.entries(urls).flatMap(([variable, url]) =>
      url === undefined ? [] : [inspect(variable, url, variable === 'DATABASE_REPLICA_URL')],
    ),
  );
}

async function inspect(variable: string, connectionString: string, isReplica: boolean): Promise<OtherServerFacts> {
  const db = new pg.Client({
    connectionString,
    application_name: 'petstore-doctor',
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
  });
  db.on('error', () => undefined);
  const address = `${db.host}:${db.port}`;
  try {
    await withDeadline(db.connect(), TIMEOUT_MS);
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
