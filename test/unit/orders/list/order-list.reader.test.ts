import { setTimeout as delay } from 'node:timers/promises';
import { loadConfig } from '../../../../src/config/load-config.js';
import type { Pools } from '../../../../src/database/pools.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ListCompaction } from '../../../../src/orders/list/list-compaction.js';
import { ReplicaFallback } from '../../../../src/orders/list/replica-fallback.js';
import type { ListReplica } from '../../../../src/orders/list/list-replica.js';
import type { ListTransaction, ListTransactions } from '../../../../src/orders/list/list-transaction.js';
import type { ListVersion } from '../../../../src/orders/list/list-version.js';
import { ListVersionReader } from '../../../../src/orders/list/list-version.reader.js';
import { OrderListReader } from '../../../../src/orders/list/order-list.reader.js';

/** What 16,384 orders take in the table. */
const FULL_BLOCK_TABLE_BYTES = 1_400_000;

/** A database of so many blocks, all changed with each call of `grow`; each block has one order, whatever the table's size. */
class FakeDatabase implements Pick<ListTransactions, 'acquire' | 'release' | 'begin'> {
  #version = 0;
  #blocks = 0;
  copies = 0;

  grow(blocks: number): void {
    this.#version++;
    this.#blocks = blocks;
  }

  readonly pools = {
    main: {
      query: () => {
        const tokens = Array.from({ length: this.#blocks }, (_, block) => `${block} ${this.#version}`);
        const row = { file: '1', token: '0', changes: this.#blocks, first: '0', last: '0', blocks: tokens.join() };
        return Promise.resolve({ rows: [row] });
      },
    },
  } as unknown as Pools;

  acquire(): Promise<void> {
    return Promise.resolve();
  }

  release(): void {
    // Slots are unlimited.
  }

  begin(): Promise<ListTransaction> {
    const blocks = Array.from({ length: this.#blocks }, (_, block) => ({
      id: BigInt(block),
      version: `1/${this.#version}`,
    }));
    const version: ListVersion = { name: '1/0', blocks, span: undefined, changes: this.#blocks };
    return Promise.resolve({
      version,
      tableBytes: this.#blocks * FULL_BLOCK_TABLE_BYTES,
      copy: (firstId: string) => this.#copy(firstId),
      end: () => Promise.resolve(),
    });
  }

  async *#copy(firstId: string): AsyncGenerator<Buffer> {
    this.copies++;
    await Promise.resolve();
    yield Buffer.from(`${firstId}\t1\t1\t\\N\tf\n`);
  }
}

/** A database without a replica. */
function onPrimary(pools: Pools): ReplicaFallback {
  return new ReplicaFallback(pools, { available: undefined } as unknown as ListReplica);
}

function versionsIn(pools: Pools): ListVersionReader {
  return new ListVersionReader(onPrimary(pools), new ListCompaction(pools), new Metrics());
}

describe('OrderListReader', () => {
  it('reads ahead no more than fits the cache when a list that was short has grown', async () => {
    const database = new FakeDatabase();
    const reader = new OrderListReader(
      onPrimary(database.pools),
      versionsIn(database.pools),
      database as unknown as ListTransactions,
      loadConfig({ LIST_CACHE_MB: '1' }),
      new Metrics(),
    );
    database.grow(1);
    const short = await reader.open(true);
    for await (const part of short.parts) {
      expect(part.kind).toBe('block');
    }
    await short.close();
    database.copies = 0;
    database.grow(100);
    const long = await reader.open(true);
    await delay(200);
    // Three blocks of about 320 KiB fit 1 MiB; the rest comes at the client's pace.
    expect(database.copies).toBeLessThanOrEqual(4);
    await long.close();
  });
});

describe('ListVersionReader', () => {
  it('compacts the changes when there are so many that reading their versions times out', async () => {
    const statements: string[] = [];
    const query = jest.fn((statement: string | { text: string }) => {
      statements.push(typeof statement === 'string' ? statement : 'versions');
      return typeof statement === 'string'
        ? Promise.resolve({ rows: [{ last: null, rows: 1 }] })
        : Promise.reject(Object.assign(new Error('canceling statement'), { code: '57014' }));
    });
    const pools = { main: { query } } as unknown as Pools;
    await expect(versionsIn(pools).currentBlocks(pools)).rejects.toMatchObject({ code: '57014' });
    expect(statements).toContain('SELECT compact_order_list_changes($1) AS last');
  });
});
