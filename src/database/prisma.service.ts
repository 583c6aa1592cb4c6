import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/client.js';
import { Pools } from './pools.js';

const statementNames = new Map<string, string>();

/**
 * A named statement stays parsed and planned for the connection. The texts are few: the constants in our code and the
 * queries that Prisma generates, with values as parameters.
 */
function statementNameOf(sql: string): string {
  let name = statementNames.get(sql);
  if (name === undefined) {
    name = `petstore_${statementNames.size}`;
    statementNames.set(sql, name);
  }
  return name;
}

/** The Prisma client over the main pool. It does not own the pool: disconnecting leaves the pool open. */
@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  constructor(pools: Pools) {
    super({
      adapter: new PrismaPg(pools.main, { statementNameGenerator: ({ sql }) => statementNameOf(sql) }),
      // The other formats capture a stack trace for every query.
      errorFormat: 'minimal',
    });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.$disconnect();
  }
}
