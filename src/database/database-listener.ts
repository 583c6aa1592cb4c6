import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import pg from 'pg';
import { CONFIG, type Config } from '../config/config.js';

const RECONNECT_FIRST_MS = 100;
const RECONNECT_MAX_MS = 5_000;
/** A connection that died without a word is noticed by a question that goes unanswered. Milliseconds. */
const HEARTBEAT_MS = 10_000;
const HEARTBEAT_TIMEOUT_MS = 5_000;

/** Who is told what arrives on a channel. */
export interface Subscription {
  readonly channel: string;
  onMessage(payload: string): void;
  /** Messages may have been missed: whatever was concluded from their absence no longer holds. */
  onGap?(): void;
}

/**
 * Hears what other processes announce through PostgreSQL (`NOTIFY`), on a connection of its own that comes back by
 * itself. PostgreSQL keeps no messages for an absent listener, so every reconnection is told to the subscribers as a gap.
 */
@Injectable()
export class DatabaseListener implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #logger = new Logger('DatabaseListener');
  readonly #subscriptions: Subscription[] = [];
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #retryMs = RECONNECT_FIRST_MS;
  #closed = false;

  constructor(@Inject(CONFIG) private readonly config: Config) {}

  /** Call before the application has started. */
  subscribe(subscription: Subscription): void {
    this.#subscriptions.push(subscription);
  }

  /** Whether messages arrive at the moment. */
  get connected(): boolean {
    return this.#client !== undefined;
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.#connect();
  }

  async onApplicationShutdown(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearInterval(this.#heartbeat);
    await this.#client?.end();
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.config.databaseUrl,
      application_name: 'petstore-listener',
      connectionTimeoutMillis: HEARTBEAT_TIMEOUT_MS,
      query_timeout: HEARTBEAT_TIMEOUT_MS,
      keepAlive: true,
    });
    client.on('notification', ({ channel, payload }) => {
      for (const subscription of this.#subscriptions) {
        if (subscription.channel === channel) {
          subscription.onMessage(payload ?? '');
        }
      }
    });
    const onLost = (error?: Error): void => {
      this.#lost(client, error);
    };
    client.on('error', onLost);
    client.on('end', onLost);
    try {
      await client.connect();
      for (const { channel } of this.#subscriptions) {
        await client.query(`LISTEN ${client.escapeIdentifier(channel)}`);
      }
    } catch (error) {
      this.#lost(client, error as Error);
      return;
    }
    this.#established(client);
  }

  #established(client: pg.Client): void {
    this.#client = client;
    this.#retryMs = RECONNECT_FIRST_MS;
    for (const subscription of this.#subscriptions) {
      subscription.onGap?.();
    }
    this.#heartbeat = setInterval(() => {
      client.query('SELECT 1').catch((error: unknown) => {
        this.#lost(client, error as Error);
      });
    }, HEARTBEAT_MS).unref();
  }

  #lost(client: pg.Client, error: Error | undefined): void {
    client.removeAllListeners('end');
    if (this.#closed || (this.#client !== undefined && this.#client !== client)) {
      return;
    }
    if (this.#client === client) {
      this.#logger.warn(`lost the listening connection: ${error?.message ?? 'closed by the server'}`);
    }
    this.#client = undefined;
    clearInterval(this.#heartbeat);
    clearTimeout(this.#timer);
    client.end().catch(() => undefined);
    this.#timer = setTimeout(() => void this.#connect(), this.#retryMs).unref();
    this.#retryMs = Math.min(this.#retryMs * 2, RECONNECT_MAX_MS);
  }
}
