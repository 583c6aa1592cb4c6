/** Ids per block as a power of two: `block = id >> 14`, as in the migration's triggers. */
const BLOCK_BITS = 14n;

/** Orders that one block holds at most. */
export const BLOCK_ROWS = 2 ** Number(BLOCK_BITS);

/** A list with more blocks is read as a whole: naming each block would cost more than it saves. */
const BLOCKS_MAX = 50_000;
/** Rows beyond which blocks are not even counted: grouping them would take seconds. Compaction makes them fewer. */
const CHANGES_MAX = 1_000_000;

/** The version of the list and of its blocks in one snapshot. */
export interface ListVersion {
  /** Equal exactly when the list is. Opaque. */
  readonly name: string;
  /** Every block that ever held an order, by ascending id; empty when there are too many. */
  readonly blocks: readonly BlockVersion[];
  /** The first and last block when there are too many to name each. */
  readonly span: { readonly first: bigint; readonly last: bigint } | undefined;
  /** Rows that the versions were read from. */
  readonly changes: number;
}

export interface BlockVersion {
  /** `id >> 14` of its orders. */
  readonly id: bigint;
  /** Equal exactly when its orders are. Opaque. */
  readonly version: string;
}

/**
 * TRUNCATE and statements that rewrite the table change rows without firing a trigger for them. They give the table
 * another file, so the file is part of every version.
 */
const TABLE_FILE = `coalesce(pg_relation_filenode('orders'), 0)::text`;

/** The version of the list alone, without its blocks. */
export const SELECT_LIST_VERSION = `
  SELECT ${TABLE_FILE} || '/' || coalesce(bit_xor(token), 0) AS name FROM order_list_changes`;

/** The versions of all blocks as one row: rows cost more than their bytes. `blocks` is null when there are none or too many. */
export const SELECT_BLOCK_VERSIONS = `
  WITH total AS MATERIALIZED (
    SELECT coalesce(bit_xor(token), 0) AS token, count(*)::integer AS changes, min(block) AS first, max(block) AS last
    FROM order_list_changes
  ), versions AS MATERIALIZED (
    SELECT block, bit_xor(token) AS token FROM order_list_changes
    WHERE (SELECT changes FROM total) <= ${CHANGES_MAX} GROUP BY block LIMIT ${BLOCKS_MAX + 1}
  )
  SELECT ${TABLE_FILE} AS file, total.*,
         (SELECT CASE WHEN count(*) <= ${BLOCKS_MAX} THEN string_agg(block || ' ' || token, ',') END FROM versions) AS blocks
  FROM total`;

/** The row of {@link SELECT_BLOCK_VERSIONS}; int64 as text. */
export interface BlockVersionsRow {
  readonly file: string;
  readonly token: string;
  readonly changes: number;
  readonly first: string | null;
  readonly last: string | null;
  readonly blocks: string | null;
}

export function parseListVersion({ file, token: list, changes, first, last, blocks }: BlockVersionsRow): ListVersion {
  const parsed = (blocks === null ? [] : blocks.split(',')).map((text): BlockVersion => {
    const separator = text.indexOf(' ');
    return { id: BigInt(text.slice(0, separator)), version: `${file}/${text.slice(separator + 1)}` };
  });
  parsed.sort((a, b) => (a.id < b.id ? -1 : 1));
  const isSparse = blocks === null && first !== null && last !== null;
  const span = isSparse ? { first: BigInt(first), last: BigInt(last) } : undefined;
  return { name: `${file}/${list}`, blocks: parsed, span, changes };
}

/** The first and last id that the blocks from one to another can hold, as decimal text. */
export function idRange(first: bigint, last: bigint): [first: string, last: string] {
  return [(first << BLOCK_BITS).toString(), (((last + 1n) << BLOCK_BITS) - 1n).toString()];
}
