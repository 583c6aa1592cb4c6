import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { ApiKeysRepository } from '../api-keys/api-keys.repository.js';
import { OrdersRepository } from '../orders/orders.repository.js';

const HASH_OF_NO_KEY = '00'.repeat(32);

/**
 * Does once at start, on nothing, what requests do: connections are made and Prisma's query compiler is loaded before
 * the first partner calls, who would wait some 200 ms for it. A database that is away is no reason not to start.
 */
@Injectable()
export class WarmUp implements OnApplicationBootstrap {
  readonly #logger = new Logger('WarmUp');

  constructor(
    private readonly apiKeys: ApiKeysRepository,
    private readonly orders: OrdersRepository,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    try {
      await Promise.all([this.apiKeys.findByHash(HASH_OF_NO_KEY), this.orders.cancelUnlocked([])]);
    } catch (error) {
      this.#logger.warn(`the database does not answer yet: ${String(error)}`);
    }
  }
}
