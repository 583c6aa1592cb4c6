import { Injectable } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import type { SqlDriverAdapter, SqlQuery } from '@prisma/driver-adapter-utils';
import { Prisma, PrismaClient } from './generated/client.js';
import { Pools } from './pools.js';
import { throwAsStatementError } from './postgres-errors.js';

const statementNames = new Map<string, string>();

/**
 * A named statement stays parsed and planned for the connection. The texts are few: constants in our code, with values as
 * parameters.
 */
function statementNameOf(sql: string): string {
  let name = statementNames.get(sql);
  if (name === undefined) {
    name = `petstore_${statementNames.size}`;
    statementNames.set(sql, name);
  }
  return name;
}

const TEXT = { scalarType: 'string', arity: 'scalar' } as const;

const SELECT_USABLE = Prisma.sql`
  SELECT has_table_privilege('orders', 'SELECT') AND has_any_column_privilege('api_keys', 'SELECT')`;

/** A statement whose parameters are texts, as the driver adapter takes it. */
function sqlQueryOf({ text, values }: Prisma.Sql): SqlQuery {
  return { sql: text, args: values, argTypes: values.map(() => TEXT) };
}

/**
 * The Prisma client over the main pool. It does not own the pool, and holds nothing that must end.
 *
 * `execute` and `queryRows` are `$executeRaw` and `$queryRaw` without the client's engine: they call Prisma's driver adapter
 * directly, which costs less (docs/decisions/0002). Their parameters must be texts, and they cannot be part of a `$transaction`.
 * The client's models do not work in production (docs/decisions/0010).
 */
@Injectable()
export class PrismaService extends PrismaClient {
  readonly #adapter: Promise<SqlDriverAdapter>;
  /** See {@link Pools.beforeWrite}. */
  readonly beforeWrite: () => Promise<void>;

  constructor(pools: Pools) {
    const adapter = new PrismaPg(pools.main, { statementNameGenerator: ({ sql }) => statementNameOf(sql) });
    // The other formats capture a stack trace for every query.
    super({ adapter, errorFormat: 'minimal' });
    this.#adapter = adapter.connect();
    this.beforeWrite = () => pools.beforeWrite();
  }

  /** @returns the number of affected rows */
  async execute(statement: Prisma.Sql): Promise<number> {
    const adapter = await this.#adapter;
    return adapter.executeRaw(sqlQueryOf(statement)).catch(throwAsStatementError);
  }

  /** @returns the rows, each as the array of its values */
  async queryRows<Row extends unknown[]>(statement: Prisma.Sql): Promise<Row[]> {
    const adapter = await this.#adapter;
    const { rows } = await adapter.queryRaw(sqlQueryOf(statement)).catch(throwAsStatementError);
    return rows as Row[];
  }

  /** Whether this role can read the tables. Locks none of them. @throws {Error} (by rejection) when there are none */
  async isUsable(): Promise<boolean> {
    const [row] = await this.queryRows<[boolean]>(SELECT_USABLE);
    return row?.[0] === true;
  }
}
