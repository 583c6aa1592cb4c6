/** Ids per block as a power of two: `block = id >> 14`, as in the triggers of the migration. */
const BLOCK_BITS = 14n;
/** Pieces that a version names at most: with more, several blocks share one. */
const PIECES_MAX = 4_096;
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** The version of the list in one snapshot. */
export interface ListVersion {
  /** Equal exactly when the list is. Opaque, of characters that an entity tag may have. */
  readonly name: string;
  /** By ascending id, without a gap from the lowest int64 to the highest. */
  readonly pieces: readonly Piece[];
  /** Of a group of blocks that begins a piece. */
  readonly blocksPerGroup: number;
}

/** The orders of a range of ids, in one version. */
export interface Piece {
  /** Names the range and its version: equal exactly when the orders are. Opaque. */
  readonly key: string;
  /** The lowest id and the highest; decimal. */
  readonly first: string;
  readonly last: string;
}

/**
 * A digest of the tables of the list with their schema, triggers and functions, 32 digits of its SHA-256: `xmin` is the transaction that
 * wrote a row of the catalogue, so whatever is done to them gives another digest for good. Rows and not functions such as
 * `to_regclass`, which read the latest catalogue instead of the snapshot; arrays, which cost less than joins.
 */
const CATALOGUE = `(
  SELECT left(encode(sha256(convert_to(string_agg(concat_ws(' ', relname, oid, xmin, relfilenode, relhassubclass, relhasrules,
    (SELECT xmin FROM pg_namespace WHERE oid = relnamespace),
    ARRAY(SELECT xmin FROM pg_attribute WHERE attrelid = relation.oid AND attnum > 0 ORDER BY attnum),
    ARRAY(SELECT concat(trigger.xmin, ' ', function.xmin) FROM pg_trigger AS trigger JOIN pg_proc AS function ON function.oid = tgfoid
          WHERE tgrelid = relation.oid ORDER BY tgname)), ', ' ORDER BY relname), 'UTF8')), 'hex'), 32)
  FROM pg_class AS relation
  WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') AND relname IN ('orders', 'order_list_changes'))`;

/** The sums of the tokens: of all, and of those that concern every block (null when there is none). */
const SUMS = 'sum(token)::text AS tokens, (sum(token) FILTER (WHERE block IS NULL))::text AS renewals';

/** With 4,000 pieces it takes a ninth of the time of {@link SELECT_PIECES}. */
export const SELECT_NAME = `SELECT ${CATALOGUE} AS catalogue, ${SUMS}, count(*)::integer AS count FROM order_list_changes`;

/** What a version is named by. */
export interface NameRow {
  readonly catalogue: string | null;
  readonly tokens: string | null;
  /** Null when no token concerns every block, as after TRUNCATE: then the tokens are not those of the list. */
  readonly renewals: string | null;
  /** Of the rows of the table, which compaction makes fewer; of the groups of blocks in a row with pieces. */
  readonly count: number;
}

/** With the pieces as one text, because rows cost more than their bytes. `$1`: the level, see {@link nextLevel}. */
export const SELECT_PIECES = `
  SELECT ${CATALOGUE} AS catalogue, ${SUMS}, count(*)::integer AS count,
         string_agg(block || ' ' || token, ',' ORDER BY block) AS pieces
  FROM (
    SELECT block >> $1::int AS block, sum(token) AS token FROM order_list_changes GROUP BY 1 LIMIT ${PIECES_MAX + 2}
  ) AS groups`;

export interface PiecesRow extends NameRow {
  readonly pieces: string | null;
}

/**
 * A piece begins with a group of 2^level blocks that has changes. When there are too many groups, those of a higher level are read:
 * each consists of whole groups of the level before, so a change still touches one piece, or two when its group is new.
 * @returns the same level when it is high enough
 */
export function nextLevel(level: number, { count }: PiecesRow): number {
  return count > PIECES_MAX + 1 ? level + 4 : level;
}

/** See {@link ListVersion.name}. */
export function nameOf(row: NameRow): string {
  return `${prefixOf(row)}-${wrapped(row.tokens)}`;
}

/** @param level what the row was read with */
export function parseVersion(row: PiecesRow, level: number): ListVersion {
  const prefix = prefixOf(row);
  const shift = BLOCK_BITS + BigInt(level);
  const found = (row.pieces ?? '0 0').split(',').map((text) => {
    const [block = '', token = ''] = text.split(' ');
    return { first: BigInt(block) << shift, version: wrapped(token) };
  });
  const pieces = found.map(({ first, version }, index): Piece => {
    // The first piece begins with the lowest id, so rows in blocks without a token are read with the piece before them.
    const from = index === 0 ? INT64_MIN : first;
    const to = (found[index + 1]?.first ?? INT64_MAX + 1n) - 1n;
    return { key: `${prefix}/${from}/${to}/${version}`, first: from.toString(), last: to.toString() };
  });
  return { name: nameOf(row), pieces, blocksPerGroup: 2 ** level };
}

/** PostgreSQL adds tokens without a bound and compacts them modulo 2^64. */
function wrapped(sum: string | null): string {
  return BigInt.asUintN(64, BigInt(sum ?? 0)).toString(36);
}

/** What every piece depends on. */
function prefixOf({ catalogue, renewals }: NameRow): string {
  return `${catalogue}-${wrapped(renewals)}`;
}
