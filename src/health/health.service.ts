import { Injectable } from '@nestjs/common';
import { Pools } from '../database/pools.js';

/** How long the database may take to respond before the service reports unready. Milliseconds. */
const PING_TIMEOUT_MS = 1_000;

@Injectable()
export class HealthService {
  #draining = false;

  constructor(private readonly pools: Pools) {}

  /** From now on the service reports unready, so that balancers send no more requests. */
  startDraining(): void {
    this.#draining = true;
  }

  /** Whether to send requests here. Resolves within a second. */
  async isReady(): Promise<boolean> {
    return !this.#draining && (await this.#databaseResponds());
  }

  async #databaseResponds(): Promise<boolean> {
    const timeout = new Promise<false>((resolve) => setTimeout(resolve, PING_TIMEOUT_MS, false).unref());
    const ping = this.pools.main.query('SELECT 1').then(
      () => true,
      () => false,
    );
    return Promise.race([ping, timeout]);
  }
}
