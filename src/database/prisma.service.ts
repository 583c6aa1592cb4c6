import { Injectable, type OnModuleInit } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/client.js';
import { Pools } from './pools.js';
import { statementNameOf } from './statement-names.js';

/** The Prisma client over the main pool, which ends it: {@link Pools}. */
@Injectable()
export class PrismaService extends PrismaClient implements OnModuleInit {
  constructor(pools: Pools) {
    const adapter = new PrismaPg(pools.main, { statementNameGenerator: ({ sql }) => statementNameOf(sql) });
    // The other formats capture a stack trace for every query.
    super({ adapter, errorFormat: 'minimal' });
  }

  /** Loads the query compiler at the start and not for the first request. Opens no connection. */
  async onModuleInit(): Promise<void> {
    await this.$connect();
  }

  /** Whether this role may list and cancel orders. Locks no table. @throws {Error} (by rejection) when there are none */
  async isUsable(): Promise<boolean> {
    const [row] = await this.$queryRaw<{ usable: boolean }[]>`
      SELECT has_column_privilege('api_keys', 'key_hash', 'SELECT') AND has_column_privilege('api_keys', 'revoked_at', 'SELECT')
        AND has_table_privilege('orders', 'SELECT')
        AND has_column_privilege('orders', 'status', 'UPDATE') AND has_column_privilege('orders', 'cancelled_at', 'UPDATE') AS usable`;
    return row?.usable === true;
  }
}
