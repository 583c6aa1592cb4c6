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
const HEARTBEAT_MS = 10_000;
const RESPONSE_TIMEOUT_MS = 5_000;

/** A handler for the messages of a channel. */
export interface Subscription {
  readonly channel: string;
  onMessage(payload: string): void;
  /** The connection is lost: messages may be missed from now on. */
  onLost?(): void;
  /** Messages may have been missed: invalidate what depends on them. */
  onGap?(): void;
}

interface Connection {
  readonly client: pg.Client;
  readonly socket: Socket;
}

/**
 * Receives notifications of PostgreSQL (`NOTIFY`) on its own connection, which is reopened when it is lost. PostgreSQL
 * does not store messages for a disconnected listener, so each reconnection is reported as a gap.
 */
@Injectable()
export class DatabaseListener implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #logger = new Logger('DatabaseListener');
  readonly #subscriptions: Subscription[] = [];
  /** The connection in use or, while reconnecting, the one being opened. */
  #connection: Connection | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #retryMs = RECONNECT_FIRST_MS;
  #stopped = false;
  #isEstablished = false;
  #wasLost = false;

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly metrics: Metrics,
  ) {
    metrics.recoveries.inc({ dependency: 'database' }, 0);
    metrics.watchListener(() => this.#isEstablished);
  }

  /** Call before the application has started. */
  subscribe(subscription: Subscription): void {
    this.#subscriptions.push(subscription);
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.#connect();
  }

  onApplicationShutdown(): void {
    this.#stopped = true;
    clearTimeout(this.#retryTimer);
    clearInterval(this.#heartbeat);
    // Ends the session in every phase, also while connecting and when the server no longer responds.
    this.#connection?.socket.destroy();
  }

  async #connect(): Promise<void> {
    const socket = new Socket();
    const client = new pg.Client({
      connectionString: this.config.databaseDirectUrl ?? this.config.databaseUrl,
      application_name: 'petstore-listener',
      connectionTimeoutMillis: RESPONSE_TIMEOUT_MS,
      query_timeout: RESPONSE_TIMEOUT_MS,
      keepAlive: true,
      stream: () => socket,
    });
    const connection = { client, socket };
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
      await client.query([sessionSettings({ statement_timeout: RESPONSE_TIMEOUT_MS }), ...listens].join('; '));
    } catch (error) {
      this.#lost(connection, error as Error);
      return;
    }
    if (this.#connection === connection && !this.#stopped) {
      this.#established(connection);
    }
  }

  #established(connection: Connection): void {
    this.#retryMs = RECONNECT_FIRST_MS;
    this.#isEstablished = true;
    if (this.#wasLost) {
      this.#wasLost = false;
      this.metrics.recoveries.inc({ dependency: 'database' });
    }
    for (const subscription of this.#subscriptions) {
      subscription.onGap?.();
    }
    this.#heartbeat = setInterval(() => {
      connection.client.query('SELECT 1').catch((error: unknown) => {
        this.#lost(connection, error as Error);
      });
    }, HEARTBEAT_MS).unref();
  }

  #lost(connection: Connection, error: Error | undefined): void {
    connection.socket.destroy();
    if (this.#stopped || this.#connection !== connection) {
      return;
    }
    this.#connection = undefined;
    this.#isEstablished = false;
    this.#wasLost = true;
    clearInterval(this.#heartbeat);
    for (const subscription of this.#subscriptions) {
      subscription.onLost?.();
    }
    this.#logger.warn(`no connection to listen on, reconnecting: ${error?.message ?? 'closed by the server'}`);
    this.#retryTimer = setTimeout(() => {
      inBackground(this.#connect());
    }, this.#retryMs).unref();
    this.#retryMs = Math.min(this.#retryMs * 2, RECONNECT_MAX_MS);
  }
}
