import { Injectable } from '@nestjs/common';
import type { ClientBase } from 'pg';
import { databaseCall } from '../database/postgres-errors.js';
import { Pools } from '../database/pools.js';

/**
 * What the transaction sees. Two equal values of one incarnation of one database mean equal data (PostgreSQL
 * documentation, "Transaction ID and Snapshot Information Functions"), so no write has to maintain a version.
 */
const SNAPSHOT = 'SELECT pg_current_snapshot()::text AS snapshot';

/**
 * The database and its incarnation. The system identifier and timeline tell clusters and their promoted replicas apart.
 * The start time and the age of the statistics tell a crash from a quiet night: recovery may hand transaction ids out
 * again that were never made durable, and it always resets the statistics.
 */
const INCARNATION = `
  SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
                        (SELECT timeline_id FROM pg_control_checkpoint()),
                        (SELECT oid FROM pg_database WHERE datname = current_database()),
                        extract(epoch FROM pg_postmaster_start_time()),
                        (SELECT extract(epoch FROM stats_reset) FROM pg_stat_wal)) AS incarnation`;

/** Reads the name of the current state of the database. */
@Injectable()
export class SnapshotReader {
  /** A connection belongs to one incarnation for as long as it lives. */
  readonly #incarnations = new WeakMap<ClientBase, string>();
  #running: Promise<string> | undefined;
  #next: Promise<string> | undefined;

  constructor(private readonly pools: Pools) {}

  /**
   * The snapshot of a moment after the call. Calls that arrive while a query is running share the next one, so that a
   * crowd of polls costs one tiny query after the other and not one each.
   * @throws {DomainError} `service_unavailable`
   */
  current(): Promise<string> {
    if (this.#running === undefined) {
      return this.#start();
    }
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    );
    return this.#next;
  }

  /** The snapshot of the transaction that the client is in. */
  async ofTransaction(client: ClientBase): Promise<string> {
    const incarnation = await this.#incarnationOf(client);
    const { rows } = await client.query<{ snapshot: string }>({ name: 'snapshot', text: SNAPSHOT });
    return `${incarnation}/${rows[0]?.snapshot ?? ''}`;
  }

  #start(): Promise<string> {
    this.#next = undefined;
    const running = databaseCall(() => this.#read()).finally(() => {
      if (this.#running === running) {
        this.#running = undefined;
      }
    });
    this.#running = running;
    return running;
  }

  async #read(): Promise<string> {
    const client = await this.pools.main.connect();
    try {
      const snapshot = await this.ofTransaction(client);
      client.release();
      return snapshot;
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  async #incarnationOf(client: ClientBase): Promise<string> {
    const known = this.#incarnations.get(client);
    if (known !== undefined) {
      return known;
    }
    const { rows } = await client.query<{ incarnation: string }>(INCARNATION);
    const incarnation = rows[0]?.incarnation ?? '';
    this.#incarnations.set(client, incarnation);
    return incarnation;
  }
}
