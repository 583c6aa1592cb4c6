import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { ApiKeysRepository } from '../api-keys/api-keys.repository.js';
import { ListVersions } from '../orders/list/list-versions.js';
import { OrdersRepository } from '../orders/orders.repository.js';

const HASH_OF_NO_KEY = '00'.repeat(32);

/**
 * Runs the statements of requests once at start, without effect: this opens connections and checks the triggers of the list, for
 * which the first request would wait. The service starts even when the database is unreachable.
 */
@Injectable()
export class WarmUp implements OnApplicationBootstrap {
  readonly #logger = new Logger('WarmUp');

  constructor(
    private readonly apiKeys: ApiKeysRepository,
    private readonly orders: OrdersRepository,
    private readonly versions: ListVersions,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    try {
      await Promise.all([
        this.apiKeys.findByHash(HASH_OF_NO_KEY),
        this.orders.cancelUnlocked([]),
        this.versions.currentName(),
      ]);
    } catch (error) {
      this.#logger.warn(`database is unreachable: ${String(error)}`);
    }
  }
}
