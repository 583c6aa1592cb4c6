import { Injectable } from '@nestjs/common';
import { Prisma } from '../database/generated/client.js';
import { PrismaService } from '../database/prisma.service.js';
import { Metrics } from '../metrics/metrics.js';

/** How long the database may take to respond before the service reports unready. Milliseconds. */
const PING_TIMEOUT_MS = 1_000;

@Injectable()
export class HealthService {
  #draining = false;
  /** The ping in flight. Everyone may ask, so that a flood must not take the connections that cancels need. */
  #ping: Promise<boolean> | undefined;

  constructor(
    private readonly prisma: PrismaService,
    metrics: Metrics,
  ) {
    metrics.watch('ready', () => this.isReady());
  }

  /** From now on the service reports unready, so that balancers send no more requests. */
  startDraining(): void {
    this.#draining = true;
  }

  /** Whether to send requests here. Resolves within a second. */
  async isReady(): Promise<boolean> {
    if (this.#draining) {
      return false;
    }
    this.#ping ??= this.#databaseResponds().finally(() => {
      this.#ping = undefined;
    });
    return this.#ping;
  }

  async #databaseResponds(): Promise<boolean> {
    const timeout = new Promise<false>((resolve) => setTimeout(resolve, PING_TIMEOUT_MS, false).unref());
    const ping = this.prisma.execute(Prisma.sql`SELECT 1`).then(
      () => true,
      () => false,
    );
    return Promise.race([ping, timeout]);
  }
}
