import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { shareNextRun } from '../common/share-next-run.js';
import { withDeadline } from '../common/deadline.js';
import { Pools } from '../database/pools.js';
import { PrismaService } from '../database/prisma.service.js';
import { Metrics } from '../metrics/metrics.js';

/** How long the database may take to respond before the service reports unready. Milliseconds. */
const PING_TIMEOUT_MS = 1_000;

/**
 * Any role may read it, from shared memory. The archiver takes one file after the other: while one fails, no later one is archived. It
 * is here, and not left to an exporter, because a deployment with an `archive_command` of its own, the one of Compose, has no exporter.
 */
const SELECT_ARCHIVE_FAILING = `
  SELECT current_setting('archive_mode') <> 'off' AND last_failed_time > coalesce(last_archived_time, '-infinity') AS failing
  FROM pg_stat_archiver`;

@Injectable()
export class HealthService implements OnModuleDestroy {
  #draining = false;
  #isArchiveFailing = false;
  // Shared: a query that is no longer awaited still has its connection, and a flood must not take those that cancels need.
  readonly #ping = shareNextRun(() => this.prisma.isUsable());
  readonly #readArchive = shareNextRun(() =>
    this.pools.main.query<{ failing: boolean | null }>(SELECT_ARCHIVE_FAILING),
  );

  constructor(
    private readonly prisma: PrismaService,
    private readonly pools: Pools,
    metrics: Metrics,
  ) {
    metrics.watch('ready', () => this.isReady());
    metrics.watch('archiveFailing', () => this.isArchiveFailing());
  }

  /** When the service stops, it reports unready first, so that balancers send no more requests. */
  onModuleDestroy(): void {
    this.#draining = true;
  }

  /** Whether to send requests here. Resolves within a second. */
  async isReady(): Promise<boolean> {
    if (this.#draining) {
      return false;
    }
    return withDeadline(this.#ping(), PING_TIMEOUT_MS).catch(() => false);
  }

  /** Whether PostgreSQL failed to archive its WAL when this was last known. Resolves within a second. */
  async isArchiveFailing(): Promise<boolean> {
    await withDeadline(this.#readArchive(), PING_TIMEOUT_MS).then(
      ({ rows: [row] }) => (this.#isArchiveFailing = row?.failing === true),
      () => undefined,
    );
    return this.#isArchiveFailing;
  }
}
