import type { Server } from 'node:net';
import { promisify } from 'node:util';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** The buckets that the OpenTelemetry semantic conventions advise for `http.server.request.duration`. Seconds. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const BATCH_SIZE_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/** A value that is read when it is asked for, so that nothing is done for it in between. */
export interface PoolFigures {
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
}

/** Everything that the service measures about itself. Labels hold no key, no address and no path, only their kinds. */
export class Metrics {
  readonly registry = new Registry();

  readonly requestDurations = new Histogram({
    name: 'http_server_request_duration_seconds',
    help: 'Time from the headers of a request to the end of its response.',
    labelNames: ['http_request_method', 'http_route', 'http_response_status_code', 'error_type'],
    buckets: DURATION_BUCKETS,
    registers: [this.registry],
  });

  readonly limiterDecisions = new Counter({
    name: 'petstore_limiter_decisions_total',
    help: 'Decisions of the rate limiter by plan (anonymous: counted by address) and outcome.',
    labelNames: ['plan', 'outcome'],
    registers: [this.registry],
  });

  readonly bans = new Counter({
    name: 'petstore_limiter_bans_total',
    help: 'Temporary bans that this process imposed.',
    labelNames: ['subject'],
    registers: [this.registry],
  });

  readonly keyLookups = new Counter({
    name: 'petstore_api_key_lookups_total',
    help: 'Verifications of well-formed API keys, by where the answer came from.',
    labelNames: ['source'],
    registers: [this.registry],
  });

  readonly listsRunning = new Gauge({
    name: 'petstore_lists_running',
    help: 'Order lists that are being written now.',
    registers: [this.registry],
  });

  readonly listRows = new Counter({
    name: 'petstore_list_rows_total',
    help: 'Orders written in lists.',
    registers: [this.registry],
  });

  readonly listBytes = new Counter({
    name: 'petstore_list_bytes_total',
    help: 'Bytes of JSON written in lists, before compression.',
    registers: [this.registry],
  });

  readonly lists = new Counter({
    name: 'petstore_lists_total',
    help: 'Order lists by how they ended: complete, cut by their reader, or failed.',
    labelNames: ['end'],
    registers: [this.registry],
  });

  readonly cancels = new Counter({
    name: 'petstore_cancels_total',
    help: 'Attempts to cancel an order, by outcome.',
    labelNames: ['outcome'],
    registers: [this.registry],
  });

  readonly cancelBatchSize = new Histogram({
    name: 'petstore_cancel_batch_size',
    help: 'Orders that one statement cancelled together.',
    buckets: BATCH_SIZE_BUCKETS,
    registers: [this.registry],
  });

  readonly cancelLockWaits = new Counter({
    name: 'petstore_cancel_lock_waits_total',
    help: 'Cancels that had to wait for an order that somebody else was changing.',
    registers: [this.registry],
  });

  readonly connectionsDropped = new Counter({
    name: 'petstore_connections_dropped_total',
    help: 'Connections that were closed unheard because MAX_CONNECTIONS were open.',
    registers: [this.registry],
  });

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  /** Shows a pool's connections by state, as they are when somebody looks. */
  watchPools(pools: Readonly<Record<string, PoolFigures>>): void {
    new Gauge({
      name: 'petstore_pool_connections',
      help: 'Database connections by pool and state, and the requests that wait for one.',
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

  /** Counts the connections that a server turns away, and shows how many are open when somebody looks. */
  watchConnections(server: Server): void {
    server.on('drop', () => {
      this.connectionsDropped.inc();
    });
    const open = promisify(server.getConnections.bind(server));
    new Gauge({
      name: 'petstore_connections',
      help: 'Connections of clients that are open.',
      registers: [this.registry],
      async collect() {
        this.set(await open());
      },
    });
  }

  /** Shows whether limits are counted by this process alone because Redis does not answer. */
  watchDegraded(isDegraded: () => boolean): void {
    new Gauge({
      name: 'petstore_limiter_store_degraded',
      help: '1 while limits are counted by this process alone because Redis does not answer.',
      registers: [this.registry],
      collect() {
        this.set(isDegraded() ? 1 : 0);
      },
    });
  }
}
