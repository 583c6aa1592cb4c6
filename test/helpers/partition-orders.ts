import type pg from 'pg';

/** Partitions the orders by their quantity, odd or even, which a writer can change. */
export async function partitionOrders(db: pg.Pool): Promise<void> {
  await db.query(`
    ALTER TABLE orders RENAME TO orders_before;
    CREATE TABLE orders (LIKE orders_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY LIST ((quantity % 2));
    CREATE TABLE orders_even PARTITION OF orders FOR VALUES IN (0);
    CREATE TABLE orders_odd PARTITION OF orders FOR VALUES IN (1);
    CREATE INDEX ON orders (id);
    GRANT SELECT, UPDATE (status, cancelled_at) ON orders TO petstore_service;
    INSERT INTO orders SELECT * FROM orders_before`);
}
