import { createHash } from 'node:crypto';
import { ORDER_COLUMNS, type OrderColumn } from '../order-columns.js';

/** The version of the list in one snapshot. */
export interface ListVersion {
  /** Equal only when the list is. Opaque, of characters that an entity tag may have. */
  readonly name: string;
  /** The catalogue and what concerns every block. While it is the same, sums of tokens ({@link sumsOf}) are equal only when the orders are. */
  readonly basis: string;
}

/** Raise it when the same orders are shown in another way, for a reason that the columns do not say. */
const FORMAT = 1;

/** A release that shows orders in another way must not have an entity tag of the one before. */
export function representationOf(columns: readonly OrderColumn[]): string {
  const shown = columns.map(({ name, column, type }) => [name, column, type]);
  return createHash('sha256')
    .update(JSON.stringify([FORMAT, shown]))
    .digest('hex')
    .slice(0, 8);
}
const REPRESENTATION = representationOf(ORDER_COLUMNS);

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

export const SELECT_NAME = `
  SELECT ${CATALOGUE} AS catalogue, sum(token)::text AS tokens, (sum(token) FILTER (WHERE block IS NULL))::text AS renewals,
         count(*)::integer AS count
  FROM order_list_changes`;

/** What a version is named by. */
export interface NameRow {
  readonly catalogue: string | null;
  readonly tokens: string | null;
  /** Null when no token concerns every block, as after TRUNCATE: then the tokens are not those of the list. */
  readonly renewals: string | null;
  /** Of the rows of the table, which compaction makes fewer. */
  readonly count: number;
}

/** The sums of the tokens of ranges of blocks. `$1`: the block that each range but the first begins with. */
export const SELECT_SUMS = `
  SELECT width_bucket(block, $1::bigint[]) AS range, sum(token)::text AS tokens
  FROM order_list_changes WHERE block IS NOT NULL GROUP BY 1`;

/** Ranges without a token have none. */
export interface SumRow {
  readonly range: number;
  readonly tokens: string;
}

/** See {@link ListVersion.name}. Rows may be merged into those that concern every block, so these are no part of their own in it. */
export function nameOf({ catalogue, tokens }: NameRow): string {
  return `${catalogue}-${wrapped(tokens)}-${REPRESENTATION}`;
}

export function versionOf(row: NameRow): ListVersion {
  return { name: nameOf(row), basis: `${row.catalogue}-${wrapped(row.renewals)}` };
}

/** @param count of the ranges @returns the sum of each range */
export function sumsOf(rows: readonly SumRow[], count: number): string[] {
  const sums = new Array<string>(count).fill(wrapped(null));
  for (const { range, tokens } of rows) {
    sums[range] = wrapped(tokens);
  }
  return sums;
}

/** PostgreSQL adds tokens without a bound and merges them modulo 2^64. */
function wrapped(sum: string | null): string {
  return BigInt.asUintN(64, BigInt(sum ?? 0)).toString(36);
}

/**
 * The entity tag of a version of the list. Weak (RFC 9110 section 8.8.1), because it identifies the orders and not the
 * bytes: a compressed and an uncompressed list have the same tag.
 * @param version the name of the version, see {@link ListVersion.name}
 */
export function etagOf(version: string): string {
  return `W/"${version}"`;
}

/** An element of the list of entity tags (RFC 9110 section 8.8.3), and what it is compared by. */
const OPAQUE_TAG = /(?:^|,)[ \t]*(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")(?=[ \t]*(?:,|$))/g;

/** Whether an `If-None-Match` header contains this tag, by weak comparison (RFC 9110 sections 8.8.3.2 and 13.1.2). */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) {
    return false;
  }
  if (ifNoneMatch === etag || ifNoneMatch.trim() === '*') {
    return true;
  }
  const opaque = etag.slice('W/'.length);
  return Array.from(ifNoneMatch.matchAll(OPAQUE_TAG)).some((match) => match[1] === opaque);
}
