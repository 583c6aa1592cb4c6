import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { withDeadline } from '../common/deadline.js';
import { PrismaService } from '../database/prisma.service.js';
import { Metrics } from '../metrics/metrics.js';

/** How long the database may take to respond before the service reports unready. Milliseconds. */
const PING_TIMEOUT_MS = 1_000;

@Injectable()
export class HealthService implements OnModuleDestroy {
  #draining = false;
  /** The ping in flight, with its connection. Anyone may ask, and a flood must not take the connections that cancels need. */
  #ping: Promise<boolean> | undefined;

  constructor(
    private readonly prisma: PrismaService,
    metrics: Metrics,
  ) {
    metrics.watch('ready', () => this.isReady());
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
    this.#ping ??= this.prisma
      .isUsable()
      .catch(() => false)
      .finally(() => {
        this.#ping = undefined;
      });
    return withDeadline(this.#ping, PING_TIMEOUT_MS).catch(() => false);
  }
}
