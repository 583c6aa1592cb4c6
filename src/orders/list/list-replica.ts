import { type BeforeApplicationShutdown, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import type pg from 'pg';
import { asError } from '../../common/as-error.js';
import { coalesce } from '../../common/coalesce.js';
import { withDeadline } from '../../common/deadline.js';
import { inBackground } from '../../common/in-background.js';
import { type ListPools, Pools } from '../../database/pools.js';
import { Metrics } from '../../metrics/metrics.js';
import { ReplicationLag } from './replication-lag.js';

const PROBE_INTERVAL_MS = 1_000;
const PROBE_TIMEOUT_MS = 1_000;

/** Names the database and its cluster. A standby has the identity of its primary. */
const IDENTITY = `(SELECT system_identifier FROM pg_control_system()) || '/' ||
  (SELECT oid FROM pg_database WHERE datname = current_database()) AS identity`;

/** What is flushed can be replayed; the insert position can be behind a page header that the standby has not got. */
const PROBE_PRIMARY = `SELECT ${IDENTITY}, pg_current_wal_flush_lsn() - '0/0'::pg_lsn AS position`;

/** Reads both tables, so that it fails where a list would: without the right to read them, or while they are locked. */
const PROBE_STANDBY = `
  SELECT ${IDENTITY}, pg_last_wal_replay_lsn() - '0/0'::pg_lsn AS position, pg_is_in_recovery() AS "isStandby",
    (SELECT id FROM orders LIMIT 1) AS orders, (SELECT token FROM order_list_changes LIMIT 1) AS changes`;

interface Probed {
  readonly identity: string;
  /** In the write-ahead log. */
  readonly position: string;
}

/**
 * The standby that lists are read from when `DATABASE_REPLICA_URL` is set. It is probed every second, and at once when a list
 * fails there. Each change of its state is logged once.
 */
@Injectable()
export class ListReplica implements OnApplicationBootstrap, BeforeApplicationShutdown {
  readonly #logger = new Logger('ListReplica');
  readonly #lag = new ReplicationLag();
  readonly #probe = coalesce(() => this.#probeOnce());
  #state: 'unknown' | 'available' | 'unavailable' = 'unknown';
  /** The identity of the primary when it last responded. */
  #identity: string | undefined;
  #lagMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #isStopping = false;

  constructor(
    private readonly pools: Pools,
    private readonly metrics: Metrics,
  ) {
    if (pools.replica !== undefined) {
      metrics.watch('replicaAvailable', () => this.#state === 'available');
      metrics.watch('replicaLag', () => this.#lagMs / 1_000);
    }
  }

  /** The pools of the standby; undefined while lists are read from the primary. */
  get available(): ListPools | undefined {
    return this.#state === 'available' ? this.pools.replica : undefined;
  }

  async onApplicationBootstrap(): Promise<void> {
    if (this.pools.replica !== undefined) {
      await this.#probe();
      this.#timer = setInterval(() => {
        inBackground(this.#probe());
      }, PROBE_INTERVAL_MS).unref();
    }
  }

  beforeApplicationShutdown(): void {
    clearInterval(this.#timer);
    this.#isStopping = true;
  }

  /** To be called when a list could not be read from the standby. */
  reportFailure(): void {
    this.metrics.replicaFallbacks.inc();
    inBackground(this.#probe());
  }

  /** Never rejects. */
  async #probeOnce(): Promise<void> {
    const { main, replica } = this.pools;
    if (replica === undefined || this.#isStopping) {
      return;
    }
    const [primary, standby] = await Promise.allSettled([
      query<Probed>(main, PROBE_PRIMARY),
      query<Probed & { isStandby: boolean }>(replica.main, PROBE_STANDBY),
    ]);
    const [written, replayed] = [valueOf(primary), valueOf(standby)];
    this.#identity = written?.identity ?? this.#identity;
    this.#lagMs = this.#lag.observe(performance.now(), positionOf(written), positionOf(replayed));
    if (standby.status === 'rejected') {
      this.#setUnavailable(asError(standby.reason).message);
    } else if (!standby.value.isStandby) {
      this.#setUnavailable('it is not a standby');
    } else if (this.#identity === undefined) {
      this.#setUnavailable('the primary has not responded yet');
    } else if (standby.value.identity !== this.#identity) {
      this.#setUnavailable('it is not a standby of the primary');
    } else {
      this.#setAvailable();
    }
  }

  #setAvailable(): void {
    if (this.#state !== 'available') {
      this.#state = 'available';
      this.#logger.log('reading lists from the replica');
    }
  }

  #setUnavailable(reason: string): void {
    if (this.#state !== 'unavailable') {
      this.#state = 'unavailable';
      this.#logger.warn(`replica unavailable (${reason}), reading lists from the primary`);
    }
  }
}

async function query<T extends pg.QueryResultRow>(pool: pg.Pool, text: string): Promise<T> {
  const { rows } = await withDeadline(pool.query<T>(text), PROBE_TIMEOUT_MS);
  const [row] = rows;
  if (row === undefined) {
    throw new TypeError('The probe returned no row.');
  }
  return row;
}

function valueOf<T>(result: PromiseSettledResult<T>): T | undefined {
  return result.status === 'fulfilled' ? result.value : undefined;
}

function positionOf(probed: Probed | undefined): number | undefined {
  return probed === undefined ? undefined : Number(probed.position);
}
