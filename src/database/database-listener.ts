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
const SETTINGS = {
  statement_timeout: RESPONSE_TIMEOUT_MS,
  // Pages are read in the order of an index. PostgreSQL estimates that sorting the whole table for each would be cheaper.
  enable_sort: 'off',
};

/** Runs a statement on the connection that listens. */
export type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

/**
 * Receives notifications of PostgreSQL (`NOTIFY`) on its own connection, which is reopened when it is lost. Emits the messages of a
 * channel under its name, for handlers that are added before the application has started. PostgreSQL does not store messages for a
 * disconnected listener, so a handler that needs all of them sets `synchronize`.
 */
@Injectable()
export class DatabaseListener
  extends EventEmitter<Record<string, [payload: string]>>
  implements OnApplicationBootstrap, OnApplicationShutdown
{
  /** Called when messages may be missed from now on: the connection is lost, or could not be opened. */
  onLost: () => void = () => undefined;
  /**
   * Reads what may have changed without a message. Called when the connection listens, and every second from then on; a message
   * that it may miss arrives by itself. When it fails, the connection is closed.
   */
  synchronize: (query: Query) => Promise<void> = () => Promise.resolve();
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

  /** Resolves when it has synchronized, or the database is unavailable. */
  async onApplicationBootstrap(): Promise<void> {
    await new Promise<void>((resolve) => {
      inBackground(this.#run(resolve));
    });
  }

  onApplicationShutdown(): void {
    this.#isStopped = true;
    this.#end();
  }

  /** @param onAttempt called each time it has synchronized, and when the connection is lost */
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

  #report({ message }: Error): void {
    this.#isEstablished = false;
    if (!this.#isStopped) {
      this.onLost();
      this.#logger.warn(`no connection for notifications, reconnecting: ${message}`);
    }
  }

  /**
   * Listens until the connection is lost.
   * @param onSynchronized called when it has synchronized, every second
   * @returns why it was lost, or could not be opened
   */
  async #listen(onSynchronized: () => void): Promise<Error> {
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
    const query: Query = async <Row extends object>(text: string, values?: unknown[]) => {
      const { rows } = await client.query<Row>(text, values);
      // A response and the loss of the connection may be read at once; what is read then is not kept up to date.
      lost.signal.throwIfAborted();
      return rows;
    };
    const isReadOnly = async (): Promise<boolean> =>
      (await query<{ readOnly: string }>(SELECT_READ_ONLY))[0]?.readOnly === 'on';
    try {
      await client.connect();
      const listens = this.eventNames().map((channel) => `LISTEN ${client.escapeIdentifier(channel)}`);
      await query([sessionSettings(SETTINGS), ...listens].join('; '));
      const wasReadOnly = await isReadOnly();
      for (;;) {
        if ((await isReadOnly()) !== wasReadOnly) {
          throw new Error('the server has become read-only or writable');
        }
        await this.synchronize(query);
        onSynchronized();
        await delay(HEARTBEAT_MS, undefined, { ref: false, signal: lost.signal });
      }
    } catch (error) {
      return asError(lost.signal.aborted ? lost.signal.reason : error);
    } finally {
      client.connection.stream.destroy();
    }
  }
}
