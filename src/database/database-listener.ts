import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type pg from 'pg';
import { asError } from '../common/as-error.js';
import { inBackground } from '../common/in-background.js';
import { CONFIG, type Config } from '../config/config.js';
import { Metrics } from '../metrics/metrics.js';
import { clientsOf, CONNECTION_TIMEOUT_MS } from './open-client.js';
import { sessionSettings } from './session-settings.js';

/** A key that is revoked while there is no connection must stop within a second. Milliseconds. */
const RECONNECT_MS = 500;

/**
 * Receives notifications of PostgreSQL (`NOTIFY`) on its own connection, which is reopened when it is lost. Emits the messages of a
 * channel under its name, for handlers that are added before the application has started. PostgreSQL does not store messages for a
 * disconnected listener: what depends on all of them sets `onConnected`.
 */
@Injectable()
export class DatabaseListener
  extends EventEmitter<Record<string, [payload: string]>>
  implements OnApplicationBootstrap, OnApplicationShutdown
{
  /** Called each time a connection listens: from then on messages arrive, and earlier ones may have been missed. */
  onConnected: () => void = () => undefined;
  readonly #logger = new Logger('DatabaseListener');
  readonly #Client: ReturnType<typeof clientsOf>;
  #client: pg.Client | undefined;
  #isListening = false;
  #isStopped = false;
  /** Whether the loss of the connection has been logged. */
  #hasFailed = false;

  constructor(
    @Inject(CONFIG) { databaseUrl }: Config,
    private readonly metrics: Metrics,
  ) {
    super();
    this.#Client = clientsOf(databaseUrl ?? '');
    metrics.recoveries.inc({ dependency: 'database' }, 0);
    metrics.watch('listener', () => this.#isListening);
  }

  /** Whether messages arrive, as far as this process knows. */
  get isListening(): boolean {
    return this.#isListening;
  }

  /** Resolves when it listens, or the database is unavailable. */
  async onApplicationBootstrap(): Promise<void> {
    await new Promise<void>((resolve) => {
      inBackground(this.#run(resolve));
    });
  }

  onApplicationShutdown(): void {
    this.#isStopped = true;
    this.#client?.connection.stream.destroy();
  }

  /** @param onAttempt called each time it listens, and when the connection is lost or could not be opened */
  async #run(onAttempt: () => void): Promise<void> {
    while (!this.#isStopped) {
      const { message } = await this.#listen(() => {
        this.metrics.recoveries.labels('database').inc(this.#hasFailed ? 1 : 0);
        this.#hasFailed = false;
        this.#isListening = true;
        this.onConnected();
        onAttempt();
      }).catch(asError);
      this.#report(message);
      onAttempt();
      await delay(RECONNECT_MS, undefined, { ref: false });
    }
  }

  #report(message: string): void {
    this.#isListening = false;
    if (!this.#hasFailed && !this.#isStopped) {
      this.#logger.warn(`no connection for notifications, reconnecting: ${message}`);
    }
    this.#hasFailed = true;
  }

  /** Listens until the connection is lost. @returns why it was lost @throws {Error} when it could not be opened */
  async #listen(onListening: () => void): Promise<Error> {
    const client = new this.#Client({
      application_name: 'petstore-listener',
      connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
      query_timeout: CONNECTION_TIMEOUT_MS,
      keepAlive: true,
    });
    this.#client = client;
    client.on('notification', ({ channel, payload = '' }) => this.emit(channel, payload));
    const lost = new Promise<Error>((resolve) => {
      client.on('error', resolve);
      client.on('end', () => {
        resolve(new Error('closed by the server'));
      });
    });
    try {
      await client.connect();
      const listens = this.eventNames().map((channel) => `LISTEN ${client.escapeIdentifier(channel)}`);
      await client.query([sessionSettings(), ...listens].join('; '));
      onListening();
      return await lost;
    } finally {
      client.connection.stream.destroy();
    }
  }
}
