import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
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
const SELECT_READ_ONLY = `SELECT current_setting('transaction_read_only') AS "readOnly"`;
const SETTINGS = { statement_timeout: RESPONSE_TIMEOUT_MS };

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
  #isEstablished = false;
  #isStopped = false;
  /** Ends the connection in use, in every phase: also while it is being opened and when the server no longer responds. */
  #end: () => void = () => undefined;

  constructor(
    @Inject(CONFIG) { databaseUrl }: Config,
    private readonly metrics: Metrics,
  ) {
    super();
    this.#Client = clientsOf(databaseUrl ?? '');
    metrics.recoveries.inc({ dependency: 'database' }, 0);
    metrics.watch('listener', () => this.#isEstablished);
  }

  /** Whether messages arrive, as far as the latest heartbeat knows. */
  get isListening(): boolean {
    return this.#isEstablished;
  }

  /** Resolves when it listens, or the database is unavailable. */
  async onApplicationBootstrap(): Promise<void> {
    await new Promise<void>((resolve) => {
      inBackground(this.#run(resolve));
    });
  }

  onApplicationShutdown(): void {
    this.#isStopped = true;
    this.#end();
  }

  /** @param onAttempt called each time it listens, and when the connection is lost or could not be opened */
  async #run(onAttempt: () => void): Promise<void> {
    let retryMs = RECONNECT_FIRST_MS;
    while (!this.#isStopped) {
      const error = await this.#listen(() => {
        if (retryMs > RECONNECT_FIRST_MS) {
          this.metrics.recoveries.labels('database').inc();
        }
        retryMs = RECONNECT_FIRST_MS;
        this.#isEstablished = true;
        this.onConnected();
        onAttempt();
      }).catch(asError);
      this.#report(error);
      onAttempt();
      await delay(retryMs, undefined, { ref: false });
      retryMs = Math.min(retryMs * 2, RECONNECT_MAX_MS);
    }
  }

  #report({ message }: Error): void {
    this.#isEstablished = false;
    if (!this.#isStopped) {
      this.#logger.warn(`no connection for notifications, reconnecting: ${message}`);
    }
  }

  /**
   * Listens until the connection is lost.
   * @param onListening called when it listens
   * @returns why it was lost, or could not be opened
   */
  async #listen(onListening: () => void): Promise<Error> {
    const client = new this.#Client({
      application_name: 'petstore-listener',
      connectionTimeoutMillis: RESPONSE_TIMEOUT_MS,
      query_timeout: RESPONSE_TIMEOUT_MS,
      keepAlive: true,
    });
    client.on('notification', ({ channel, payload = '' }) => this.emit(channel, payload));
    const lost = new AbortController();
    const onLost = (reason = new Error('closed by the server')): void => {
      lost.abort(reason);
      client.connection.stream.destroy();
    };
    client.on('error', onLost);
    client.on('end', onLost);
    this.#end = onLost;
    const isReadOnly = async (): Promise<boolean> => {
      const { rows } = await client.query<{ readOnly: string }>(SELECT_READ_ONLY);
      return rows[0]?.readOnly === 'on';
    };
    try {
      await client.connect();
      const listens = this.eventNames().map((channel) => `LISTEN ${client.escapeIdentifier(channel)}`);
      await client.query([sessionSettings(SETTINGS), ...listens].join('; '));
      const wasReadOnly = await isReadOnly();
      lost.signal.throwIfAborted();
      onListening();
      for (;;) {
        await delay(HEARTBEAT_MS, undefined, { ref: false, signal: lost.signal });
        if ((await isReadOnly()) !== wasReadOnly) {
          throw new Error('the server has become read-only or writable');
        }
      }
    } catch (error) {
      return asError(lost.signal.aborted ? lost.signal.reason : error);
    } finally {
      client.connection.stream.destroy();
    }
  }
}
