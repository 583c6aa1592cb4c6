import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type pg from 'pg';
import { asError } from '../common/as-error.js';
import { inBackground } from '../common/in-background.js';
import { CONFIG, type Config } from '../config/config.js';
import { Metrics } from '../metrics/metrics.js';
import { clientsOf } from './open-client.js';
import { sessionSettings } from './session-settings.js';

const RECONNECT_FIRST_MS = 100;
const RECONNECT_MAX_MS = 5_000;
/** A connection that died without being closed is detected by a query that gets no response. Milliseconds. */
const HEARTBEAT_MS = 1_000;
const RESPONSE_TIMEOUT_MS = 5_000;
/** A server that becomes read-only may have been replaced by another one, which sends the notifications from then on. */
const SELECT_READ_ONLY = `SELECT current_setting('transaction_read_only') AS "isReadOnly"`;
const SETTINGS = {
  statement_timeout: RESPONSE_TIMEOUT_MS,
  // Pages are read in the order of an index. PostgreSQL estimates that sorting the whole table for each would be cheaper.
  enable_sort: 'off',
};

/** Runs a statement on the connection that listens. */
export type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

/** A handler for the messages of a channel. */
export interface Subscription {
  readonly channel: string;
  onMessage(payload: string): void;
  /** The connection is lost: messages may be missed from now on. Also when it could not be opened. */
  onLost?(): void;
  /**
   * Reads what may have changed without a message. Called when the connection listens, and every second from then on; a message
   * that it may miss arrives by itself. When it fails, the connection is closed.
   */
  synchronize?(query: Query): Promise<void>;
}

/**
 * Receives notifications of PostgreSQL (`NOTIFY`) on its own connection, which is reopened when it is lost. PostgreSQL
 * does not store messages for a disconnected listener, so subscribers synchronize after each connection.
 */
@Injectable()
export class DatabaseListener implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #logger = new Logger('DatabaseListener');
  readonly #subscriptions: Subscription[] = [];
  readonly #Client: ReturnType<typeof clientsOf>;
  #isEstablished = false;
  #isStopped = false;
  /** Ends the connection in use, in every phase: also while it is being opened and when the server no longer responds. */
  #end: () => void = () => undefined;

  constructor(
    @Inject(CONFIG) { databaseUrl }: Config,
    private readonly metrics: Metrics,
  ) {
    this.#Client = clientsOf(databaseUrl ?? '');
    metrics.recoveries.labels('database');
    metrics.watch('listener', () => this.#isEstablished);
  }

  /** Call before the application has started. */
  subscribe(subscription: Subscription): void {
    this.#subscriptions.push(subscription);
  }

  /** Resolves when the subscribers have synchronized, or the database is unavailable. */
  async onApplicationBootstrap(): Promise<void> {
    await new Promise<void>((resolve) => {
      inBackground(this.#run(resolve));
    });
  }

  onApplicationShutdown(): void {
    this.#isStopped = true;
    this.#end();
  }

  /** @param onAttempt called when the connection is established, and when it is lost */
  async #run(onAttempt: () => void): Promise<void> {
    let retryMs = RECONNECT_FIRST_MS;
    while (!this.#isStopped) {
      const error = await this.#listen(() => {
        if (retryMs > RECONNECT_FIRST_MS) {
          this.metrics.recoveries.labels('database').inc();
        }
        retryMs = RECONNECT_FIRST_MS;
        this.#isEstablished = true;
        onAttempt();
      }).catch(asError);
      this.#report(error);
      onAttempt();
      await delay(retryMs, undefined, { ref: false });
      retryMs = Math.min(retryMs * 2, RECONNECT_MAX_MS);
    }
  }

  #report(error: Error): void {
    this.#isEstablished = false;
    if (!this.#isStopped) {
      for (const subscription of this.#subscriptions) {
        subscription.onLost?.();
      }
      this.#logger.warn(`no connection to listen on, reconnecting: ${error.message}`);
    }
  }

  /**
   * Listens until the connection is lost.
   * @param onSynchronized called when the subscribers have synchronized, every second
   * @returns why it was lost, or could not be opened
   */
  async #listen(onSynchronized: () => void): Promise<Error> {
    const client = this.#newClient();
    const lost = new AbortController();
    const onLost = (reason = new Error('closed by the server')): void => {
      lost.abort(reason);
      client.connection.stream.destroy();
    };
    client.on('error', onLost);
    client.on('end', onLost);
    this.#end = onLost;
    const query: Query = async <Row extends object>(text: string, values?: unknown[]) => {
      const { rows } = await client.query<Row>(text, values);
      // A response and the loss of the connection may be read at once; what is read then is not kept up to date.
      lost.signal.throwIfAborted();
      return rows;
    };
    try {
      await client.connect();
      const listens = this.#subscriptions.map(({ channel }) => `LISTEN ${client.escapeIdentifier(channel)}`);
      await query([sessionSettings(SETTINGS), ...listens].join('; '));
      const [before] = await query<Mode>(SELECT_READ_ONLY);
      for (;;) {
        await this.#synchronize(query, before);
        onSynchronized();
        await delay(HEARTBEAT_MS, undefined, { ref: false, signal: lost.signal });
      }
    } catch (error) {
      return asError(lost.signal.aborted ? lost.signal.reason : error);
    } finally {
      client.connection.stream.destroy();
    }
  }

  #newClient(): pg.Client {
    const client = new this.#Client({
      application_name: 'petstore-listener',
      connectionTimeoutMillis: RESPONSE_TIMEOUT_MS,
      query_timeout: RESPONSE_TIMEOUT_MS,
      keepAlive: true,
    });
    client.on('notification', ({ channel, payload }) => {
      for (const subscription of this.#subscriptions) {
        if (subscription.channel === channel) {
          subscription.onMessage(payload ?? '');
        }
      }
    });
    return client;
  }

  async #synchronize(query: Query, before: Mode | undefined): Promise<void> {
    const [now] = await query<Mode>(SELECT_READ_ONLY);
    if (now?.isReadOnly !== before?.isReadOnly) {
      throw new Error('the server has become read-only or writable');
    }
    for (const subscription of this.#subscriptions) {
      await subscription.synchronize?.(query);
    }
  }
}

/** Of the server: `on` or `off`. */
interface Mode {
  readonly isReadOnly: string;
}
