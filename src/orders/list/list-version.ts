/** Ids per block as a power of two: `block = id >> 14`, as in the migration's triggers. */
const BLOCK_BITS = 14n;

/** Orders that one block holds at most. */
export const BLOCK_ROWS = 2 ** Number(BLOCK_BITS);

/** The version of the list and of its blocks in one snapshot. */
export interface ListVersion {
  /** Equal exactly when the list is. Opaque. */
  readonly name: string;
  /** Every block that ever held an order, by ascending id. */
  readonly blocks: readonly BlockVersion[];
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

/** The versions of all blocks as one row: rows cost more than their bytes. */
export const SELECT_BLOCK_VERSIONS = `
  SELECT ${TABLE_FILE} AS file, coalesce(string_agg(block || ' ' || token, ','), '') AS blocks,
         coalesce(sum(changes), 0)::integer AS changes
  FROM (SELECT block, bit_xor(token) AS token, count(*) AS changes FROM order_list_changes GROUP BY block) AS versions`;

/** The row of {@link SELECT_BLOCK_VERSIONS}. */
export interface BlockVersionsRow {
  readonly file: string;
  readonly blocks: string;
  readonly changes: number;
}

export function parseListVersion({ file, blocks, changes }: BlockVersionsRow): ListVersion {
  let list = 0n;
  const parsed = (blocks === '' ? [] : blocks.split(',')).map((text): BlockVersion => {
    const separator = text.indexOf(' ');
    const token = text.slice(separator + 1);
    list ^= BigInt(token);
    return { id: BigInt(text.slice(0, separator)), version: `${file}/${token}` };
  });
  parsed.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { name: `${file}/${list}`, blocks: parsed, changes };
}

/** The first and last id that the blocks from one to another can hold, as decimal text. */
export function idRange(first: bigint, last: bigint): [first: string, last: string] {
  return [(first << BLOCK_BITS).toString(), (((last + 1n) << BLOCK_BITS) - 1n).toString()];
}
