import type pg from 'pg';
import { openPool } from './open-pool.js';

/*
 * The statements of release 1.0.0, as they stand there: do not change them. Of the numbers that it compares, only the results of the
 * queries are here.
 */

const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE orders IN ACCESS SHARE MODE';

const CATALOGUE = `(
  SELECT left(encode(sha256(convert_to(string_agg(concat_ws(' ', relname, oid, xmin, relfilenode, relhassubclass, relhasrules,
    (SELECT xmin FROM pg_namespace WHERE oid = relnamespace),
    ARRAY(SELECT xmin FROM pg_attribute WHERE attrelid = relation.oid AND attnum > 0 ORDER BY attnum),
    ARRAY(SELECT concat(trigger.xmin, ' ', function.xmin) FROM pg_trigger AS trigger JOIN pg_proc AS function ON function.oid = tgfoid
          WHERE tgrelid = relation.oid ORDER BY tgname)), ', ' ORDER BY relname), 'UTF8')), 'hex'), 32)
  FROM pg_class AS relation
  WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') AND relname IN ('orders', 'order_list_changes'))`;

const SUMS = 'sum(token)::text AS tokens, (sum(token) FILTER (WHERE block IS NULL))::text AS renewals';

const SELECT_PIECES = `
  SELECT ${CATALOGUE} AS catalogue, ${SUMS}, count(*)::integer AS count,
         string_agg(block || ' ' || token, ',' ORDER BY block) AS pieces
  FROM (
    SELECT block >> $1::int AS block, sum(token) AS token FROM order_list_changes GROUP BY 1 LIMIT 4098
  ) AS groups`;

const SELECT_FACTS = `
  WITH relation AS (
    SELECT pg_class.* FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace AND nspname = 'public'
    WHERE relname IN ('orders', 'order_list_changes')
  )
  SELECT ARRAY(
    SELECT concat('table ', relname, CASE WHEN relkind <> 'r' THEN ', not an ordinary one' END,
      CASE WHEN relpersistence <> 'p' THEN ', not logged' END,
      CASE WHEN relhassubclass THEN ', with child tables (if it has none any more, run ANALYZE)' END,
      CASE WHEN relrowsecurity THEN ', with row-level security' END,
      CASE WHEN relhasrules AND relname <> 'orders' THEN ', with rules' END) FROM relation
    UNION ALL
    SELECT concat('column ', relname, '.', attname, ' ', format_type(atttypid, atttypmod), CASE WHEN attname = 'id' AND attnotnull
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = attrelid AND conkey = ARRAY[attnum] AND contype = 'n' AND NOT convalidated) THEN ' NOT NULL' END)
    FROM relation JOIN pg_attribute ON attrelid = relation.oid
    WHERE attname IN ('id', 'pet_id', 'quantity', 'ship_date', 'complete', 'block', 'token')
    UNION ALL
    SELECT concat('trigger ', tgname, CASE tgenabled WHEN 'A' THEN ' ENABLE ALWAYS ' WHEN 'D' THEN ' DISABLE ' ELSE ' ENABLE ' END,
      md5(pg_get_triggerdef(pg_trigger.oid)))
    FROM relation JOIN pg_trigger ON tgrelid = relation.oid
    WHERE relname = 'order_list_changes' OR tgname IN ('orders_note_insert', 'orders_note_delete', 'orders_note_update')
    UNION ALL
    SELECT concat('function ', proname, ' ', md5(pg_get_functiondef(pg_proc.oid)))
    FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace AND nspname = 'public'
    WHERE proname IN ('note_order_list_change', 'renew_changed_order_list_versions') AND pronargs = 0
  ) AS facts`;

const CANCEL_ALONE = `
  UPDATE orders SET status = 'cancelled', cancelled_at = now()
  WHERE id = (
    SELECT CASE status WHEN 'pending' THEN id END
    FROM orders WHERE id = $1::text::bigint FOR NO KEY UPDATE
  ) RETURNING status::text`;

const CANCEL_BATCH = `
  WITH locked AS MATERIALIZED (
    SELECT id, status FROM orders WHERE id = ANY($1::text::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
  ), updated AS (
    UPDATE orders SET status = 'cancelled', cancelled_at = now()
    WHERE id = ANY(ARRAY(SELECT id FROM locked WHERE status = 'pending')) RETURNING id, status
  )
  SELECT json_object_agg(id, result)::text FROM (
    SELECT id, CASE
      WHEN status <> 'pending' THEN 'already_' || status
      WHEN id IN (SELECT id FROM updated WHERE status = 'cancelled') THEN 'cancelled'
      ELSE 'suppressed'
    END AS result FROM locked
    UNION ALL
    SELECT id, 'retry' FROM orders WHERE id = ANY($1::text::bigint[])
      AND (SELECT count(*) FROM locked) < $2::text::int AND id NOT IN (SELECT id FROM locked)
  ) AS each`;

/** The columns that it copies, of each order in one line. */
const ROWS = `SELECT coalesce(string_agg(concat_ws(' ', id, pet_id, quantity, ship_date, complete), ',' ORDER BY id), '') AS rows`;

interface PiecesRow {
  readonly catalogue: string;
  readonly tokens: string;
  readonly renewals: string | null;
  readonly pieces: string;
}

/** What a process of release 1.0.0 does in the database, prepared statements and memory included, but for HTTP and COPY. */
export class ReleasedProcess {
  readonly #pool: pg.Pool;
  /** The rows of pieces, by what names their version. */
  readonly #memory = new Map<string, string>();

  /** @param url with the login of a service */
  constructor(url: string) {
    this.#pool = openPool({ connectionString: url, max: 4 });
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }

  /** What it compares with what it knows, to see whether it may serve lists from memory. */
  async facts(): Promise<string[]> {
    return (await select<{ facts: string[] }>(this.#pool, 'list_facts', SELECT_FACTS)).facts.toSorted();
  }

  /** @returns the version of a list, the rows that it consists of, and those that the table has in the same snapshot */
  async list(): Promise<{ name: string; listed: string; stored: string }> {
    const client = await this.#pool.connect();
    try {
      await client.query(BEGIN);
      const row = await select<PiecesRow>(client, 'list_pieces', SELECT_PIECES, [0]);
      const texts: string[] = [];
      for (const { key, first, last } of piecesOf(row)) {
        const text =
          this.#memory.get(key) ?? (await rowsOf(client, `FROM ONLY orders WHERE id BETWEEN ${first} AND ${last}`));
        this.#memory.set(key, text);
        texts.push(text);
      }
      const stored = await rowsOf(client, 'FROM orders');
      await client.query('COMMIT');
      return { name: `${prefixOf(row)}-${wrapped(row.tokens)}`, listed: texts.filter(Boolean).join(), stored };
    } finally {
      client.release();
    }
  }

  /** Cancels an order alone. @returns whether this call has cancelled it */
  async cancel(id: number): Promise<boolean> {
    const { rows } = await this.#pool.query({ name: 'cancel_alone', text: CANCEL_ALONE, values: [String(id)] });
    return rows.length === 1;
  }

  /** Cancels orders in one statement. @returns those that this call has cancelled */
  async cancelBatch(ids: readonly number[]): Promise<number[]> {
    const { rows } = await this.#pool.query<{ json_object_agg: string }>({
      name: 'cancel_batch',
      text: CANCEL_BATCH,
      values: [`{${ids.join()}}`, String(ids.length)],
    });
    const results = JSON.parse(rows[0]?.json_object_agg ?? '{}') as Record<string, string>;
    return ids.filter((id) => results[id] === 'cancelled');
  }

  /** Merges rows of `order_list_changes`, in steps. */
  async compact(): Promise<void> {
    for (let page: string | null = '0'; page !== null;) {
      const text = 'SELECT compact_order_list_changes($1)::text AS page';
      ({ page } = await select<{ page: string | null }>(this.#pool, 'compact', text, [page]));
    }
  }

  /** Names the blocks of orders that were loaded without triggers. */
  async noteBlocks(first: number, last: number): Promise<void> {
    await this.#pool.query('SELECT note_order_list_blocks($1, $2)', [first, last]);
  }
}

async function select<T>(db: pg.Pool | pg.PoolClient, name: string, text: string, values: unknown[] = []): Promise<T> {
  return ((await db.query({ name, text, values })).rows as T[])[0]!;
}

async function rowsOf(client: pg.PoolClient, from: string): Promise<string> {
  return (await client.query<{ rows: string }>(`${ROWS} ${from}`)).rows[0]!.rows;
}

/** The orders of each block with a token and of those after it, and what names their version. */
function piecesOf(row: PiecesRow): { key: string; first: bigint; last: bigint }[] {
  const found = row.pieces.split(',').map((text) => {
    const [block = '', token = ''] = text.split(' ');
    return { first: BigInt(block) << 14n, version: wrapped(token) };
  });
  return found.map(({ first: start, version }, index) => {
    const first = index === 0 ? -(2n ** 63n) : start;
    const last = (found[index + 1]?.first ?? 2n ** 63n) - 1n;
    return { key: `${prefixOf(row)}/${first}/${last}/${version}`, first, last };
  });
}

function prefixOf({ catalogue, renewals }: PiecesRow): string {
  if (renewals === null) {
    throw new Error('The list has no version.');
  }
  return `${catalogue}-${wrapped(renewals)}`;
}

function wrapped(sum: string): string {
  return BigInt.asUintN(64, BigInt(sum)).toString(36);
}
