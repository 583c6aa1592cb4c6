import { hash } from 'node:crypto';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import type { SqlQuery } from '@prisma/driver-adapter-utils';
import { PrismaClient } from './generated/client.js';
import { Pools } from './pools.js';

/** The Prisma client over the main pool, which ends it: {@link Pools}. */
@Injectable()
export class PrismaService extends PrismaClient implements OnModuleInit {
  constructor(pools: Pools) {
    const adapter = new PrismaPg(pools.main, { statementNameGenerator: statementNameOf });
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

/** How Prisma's models name columns, and no statement of ours. */
const OF_MODEL = '"public"."';

/**
 * The name of a statement, which stays parsed and planned for the connection. The texts are few: constants in our code, with values
 * as parameters. Statements of models stay unnamed (the empty name): their results have the types of the columns, and a migration
 * that alters one would make them fail on every open connection.
 */
function statementNameOf({ sql }: SqlQuery): string {
  return sql.includes(OF_MODEL) ? '' : hash('sha256', sql, 'base64url');
}
