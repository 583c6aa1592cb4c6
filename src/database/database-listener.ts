import { Socket } from 'node:net';
import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import pg from 'pg';
import { inBackground } from '../common/in-background.js';
import { CONFIG, type Config } from '../config/config.js';
import { Metrics } from '../metrics/metrics.js';
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
  /** The connection is lost: messages may be missed from now on. */
  onLost?(): void;
  /**
   * Reads what may have changed without a message. Called when the connection listens, and every second from then on; a message
   * that it may miss arrives by itself. When it fails, the connection is closed.
   */
  synchronize?(query: Query): Promise<void>;
}

interface Connection {
  readonly client: pg.Client;
  readonly socket: Socket;
  /** Of its server, when it was opened: `on` or `off`. */
  isReadOnly?: string | undefined;
}

/**
 * Receives notifications of PostgreSQL (`NOTIFY`) on its own connection, which is reopened when it is lost. PostgreSQL
 * does not store messages for a disconnected listener, so subscribers synchronize after each connection.
 */
@Injectable()
export class DatabaseListener implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #logger = new Logger('DatabaseListener');
  readonly #subscriptions: Subscription[] = [];
  /** The connection in use or, while reconnecting, the one being opened; undefined once stopped. */
  #connection: Connection | undefined;
  /** Until the next heartbeat or attempt to connect. */
  #timer: NodeJS.Timeout | undefined;
  #retryMs = RECONNECT_FIRST_MS;
  #isEstablished = false;
  #wasLost = false;

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly metrics: Metrics,
  ) {
    metrics.recoveries.labels('database');
    metrics.watch('listener', () => this.#isEstablished);
  }

  /** Call before the application has started. */
  subscribe(subscription: Subscription): void {
    this.#subscriptions.push(subscription);
  }

  /** Resolves when the subscribers have synchronized, or the database is unavailable. */
  async onApplicationBootstrap(): Promise<void> {
    await this.#connect();
  }

  onApplicationShutdown(): void {
    clearTimeout(this.#timer);
    const connection = this.#connection;
    this.#connection = undefined;
    // Ends the session in every phase, also while connecting and when the server no longer responds.
    connection?.socket.destroy();
  }

  async #connect(): Promise<void> {
    const socket = new Socket();
    const client = new pg.Client({
      connectionString: this.config.databaseUrl,
      application_name: 'petstore-listener',
      connectionTimeoutMillis: RESPONSE_TIMEOUT_MS,
      query_timeout: RESPONSE_TIMEOUT_MS,
      keepAlive: true,
      stream: () => socket,
    });
    const connection: Connection = { client, socket };
    this.#connection = connection;
    client.on('notification', ({ channel, payload }) => {
      for (const subscription of this.#subscriptions) {
        if (subscription.channel === channel) {
          subscription.onMessage(payload ?? '');
        }
      }
    });
    const onLost = (error?: Error): void => {
      this.#lost(connection, error);
    };
    client.on('error', onLost);
    client.on('end', onLost);
    try {
      await client.connect();
      const listens = this.#subscriptions.map(({ channel }) => `LISTEN ${client.escapeIdentifier(channel)}`);
      await client.query([sessionSettings(SETTINGS), ...listens].join('; '));
    } catch (error) {
      this.#lost(connection, error as Error);
      return;
    }
    await this.#beat(connection);
  }

  /** @throws {Error} when the connection fails or is lost meanwhile */
  async #synchronize(connection: Connection): Promise<void> {
    const query: Query = async <Row extends object>(text: string, values?: unknown[]) => {
      const { rows } = await connection.client.query<Row>(text, values);
      // A response and the loss of the connection may be read at once; what is read then is not kept up to date.
      if (this.#connection !== connection) {
        throw new Error('the connection was lost');
      }
      return rows;
    };
    const [server] = await query<{ isReadOnly: string }>(SELECT_READ_ONLY);
    connection.isReadOnly ??= server?.isReadOnly;
    if (connection.isReadOnly !== server?.isReadOnly) {
      throw new Error('the server has become read-only or writable');
    }
    for (const subscription of this.#subscriptions) {
      await subscription.synchronize?.(query);
    }
  }

  /** Synchronizes, now and every second from then on. */
  async #beat(connection: Connection): Promise<void> {
    try {
      await this.#synchronize(connection);
    } catch (error) {
      this.#lost(connection, error as Error);
      return;
    }
    this.#retryMs = RECONNECT_FIRST_MS;
    this.#isEstablished = true;
    if (this.#wasLost) {
      this.#wasLost = false;
      this.metrics.recoveries.labels('database').inc();
    }
    this.#timer = setTimeout(() => {
      inBackground(this.#beat(connection));
    }, HEARTBEAT_MS).unref();
  }

  #lost(connection: Connection, error: Error | undefined): void {
    connection.socket.destroy();
    if (this.#connection !== connection) {
      return;
    }
    this.#connection = undefined;
    this.#isEstablished = false;
    this.#wasLost = true;
    clearTimeout(this.#timer);
    for (const subscription of this.#subscriptions) {
      subscription.onLost?.();
    }
    this.#logger.warn(`no connection to listen on, reconnecting: ${error?.message ?? 'closed by the server'}`);
    this.#timer = setTimeout(() => {
      inBackground(this.#connect());
    }, this.#retryMs).unref();
    this.#retryMs = Math.min(this.#retryMs * 2, RECONNECT_MAX_MS);
  }
}
