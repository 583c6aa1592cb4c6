import type { Server } from 'node:net';
import { promisify } from 'node:util';
import type pg from 'pg';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** The buckets that the OpenTelemetry semantic conventions advise for `http.server.request.duration`. Seconds. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const BATCH_SIZE_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/** The values that are read at scrape time, each with its name and help; true is 1. */
const GAUGES = {
  connections: ['petstore_connections', 'Open client connections.'],
  ready: ['petstore_ready', '1 while /health/ready returns 200, 0 while it returns 503.'],
  archiveFailing: [
    'petstore_wal_archive_failing',
    '1 when PostgreSQL last failed to archive its WAL, 0 when it last succeeded or does not archive; kept while it does not respond.',
  ],
  listener: ['petstore_listener_connected', '1 while PostgreSQL notifies this process of changed keys.'],
  listIntact: [
    'petstore_list_intact',
    '1 while lists are served from versions, 0 while the triggers or tables of the list are not intact and every list is read whole.',
  ],
  limiterDegraded: [
    'petstore_limiter_store_degraded',
    '1 while limits are counted by this process alone because Redis was unavailable to the latest request that asked it.',
  ],
} as const;

/** The metrics of the service. Labels never contain keys, addresses or paths, whose cardinality is unbounded. */
export class Metrics {
  readonly registry = new Registry();

  readonly requestDurations = new Histogram({
    name: 'http_server_request_duration_seconds',
    help: 'Time from the headers of a request to the end of its response; error_type is "aborted", without a status, when the connection was lost.',
    labelNames: ['http_request_method', 'http_route', 'http_response_status_code', 'error_type'],
    buckets: DURATION_BUCKETS,
    registers: [this.registry],
  });

  readonly cancelBatchSize = new Histogram({
    name: 'petstore_cancel_batch_size',
    help: 'Orders per cancel statement.',
    buckets: BATCH_SIZE_BUCKETS,
    registers: [this.registry],
  });

  readonly listsRunning = new Gauge({
    name: 'petstore_lists_running',
    help: 'In-flight order lists.',
    registers: [this.registry],
  });

  readonly limiterDecisions = this.#counter(
    'petstore_limiter_decisions_total',
    'Decisions of the rate limiter by plan (anonymous: counted by address) and outcome.',
    ['plan', 'outcome'],
  );

  readonly bans = this.#counter('petstore_limiter_bans_total', 'Temporary bans imposed by this process.', ['subject']);

  readonly keyLookups = this.#counter(
    'petstore_api_key_lookups_total',
    'Verifications of well-formed API keys by source of the result: memory or database.',
    ['source'],
  );

  readonly listRows = this.#counter('petstore_list_rows_total', 'Orders read from the database for lists.');

  readonly listPieces = this.#counter(
    'petstore_list_pieces_total',
    'Pieces that lists needed, by where they were: compressed in memory, or in the database.',
    ['source'],
  );

  readonly lists = this.#counter(
    'petstore_lists_total',
    'Order lists by how they ended: complete, disconnected (the client left or stopped reading), cut or failed (both by the service).',
    ['end'],
  );

  readonly cancels = this.#counter(
    'petstore_cancels_total',
    'Cancels that were decided, by outcome: cancelled, already_cancelled, already_shipped or not_found.',
    ['outcome'],
  );

  readonly cancelLockWaits = this.#counter(
    'petstore_cancel_lock_waits_total',
    'Cancels that found their order locked.',
  );

  readonly usageFlushFailures = this.#counter(
    'petstore_usage_flush_failures_total',
    'Attempts to write usage that failed. The counts are written later.',
  );

  readonly recoveries = this.#counter(
    'petstore_recoveries_total',
    'How often this process has used the database (for notifications) or redis again after it was unavailable.',
    ['dependency'],
  );

  readonly connectionsDropped = this.#counter(
    'petstore_connections_dropped_total',
    'Connections closed at once because MAX_CONNECTIONS were open.',
  );

  constructor() {
    collectDefaultMetrics({ register: this.registry });
    // For Prometheus a series that begins with 1 has not increased, so the series that alerts read begin with 0.
    for (const end of ['complete', 'disconnected', 'cut', 'failed']) {
      this.lists.inc({ end }, 0);
    }
    for (const source of ['memory', 'database']) {
      this.listPieces.inc({ source }, 0);
    }
    for (const outcome of ['admitted', 'limited', 'banned']) {
      this.limiterDecisions.inc({ plan: 'anonymous', outcome }, 0);
    }
    for (const subject of ['key', 'address']) {
      this.bans.inc({ subject }, 0);
    }
  }

  /** Exports a value that is read at scrape time. */
  watch(gauge: keyof typeof GAUGES, read: () => number | boolean | Promise<number | boolean>): void {
    const [name, help] = GAUGES[gauge];
    new Gauge({
      name,
      help,
      registers: [this.registry],
      async collect() {
        this.set(Number(await read()));
      },
    });
  }

  /** Exports the connections of each pool by state, read at scrape time. */
  watchPools(pools: Readonly<Record<string, pg.Pool>>): void {
    new Gauge({
      name: 'petstore_pool_connections',
      help: 'Database connections by pool and state; waiting: requests that wait for one.',
      labelNames: ['pool', 'state'],
      registers: [this.registry],
      collect() {
        for (const [pool, { totalCount, idleCount, waitingCount }] of Object.entries(pools)) {
          this.set({ pool, state: 'used' }, totalCount - idleCount);
          this.set({ pool, state: 'idle' }, idleCount);
          this.set({ pool, state: 'waiting' }, waitingCount);
        }
      },
    });
  }

  /** Counts the connections that a server drops, and exports the open ones, read at scrape time. */
  watchConnections(server: Server): void {
    server.on('drop', () => {
      this.connectionsDropped.inc();
    });
    this.watch('connections', promisify(server.getConnections.bind(server)));
  }

  #counter<Label extends string>(name: string, help: string, labelNames: readonly Label[] = []): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }
}
