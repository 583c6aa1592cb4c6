import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/client.js';
import { Pools } from './pools.js';

/** The Prisma client over the main pool. It does not own the pool, so disconnecting it leaves the pool open. */
@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  constructor(pools: Pools) {
    super({ adapter: new PrismaPg(pools.main) });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.$disconnect();
  }
}
