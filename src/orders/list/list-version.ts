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

const TRIGGERS = ['orders_note_insert', 'orders_note_update', 'orders_note_delete', 'order_list_changes_renew'];

/**
 * Why the list has no version, for an operator. PostgreSQL records which columns the condition of a trigger depends on: one that is listed
 * and not among them could change unnoticed. `$1`: the catalogue; no row when it is not the current one.
 */
export const SELECT_PROBLEMS = `
  WITH relation AS (
    SELECT pg_class.* FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace AND nspname = 'public'
    WHERE relname IN ('orders', 'order_list_changes')
  )
  SELECT ARRAY(
    SELECT concat('the trigger ', name, ' is missing or not ENABLE ALWAYS') FROM unnest('{${TRIGGERS.join()}}'::text[]) AS name
    WHERE NOT EXISTS (SELECT FROM relation JOIN pg_trigger ON tgrelid = relation.oid WHERE tgname = name AND tgenabled = 'A')
    UNION ALL
    SELECT concat('the trigger orders_note_update does not compare the column ', name)
    FROM unnest('{${ORDER_COLUMNS.map(({ column }) => column).join()}}'::text[]) AS name
    WHERE NOT EXISTS (
      SELECT FROM relation JOIN pg_trigger ON tgrelid = relation.oid AND tgname = 'orders_note_update'
      JOIN pg_depend ON classid = 'pg_trigger'::regclass AND objid = pg_trigger.oid AND refobjid = tgrelid
      JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid WHERE attname = name)
    UNION ALL
    SELECT concat(relname, ' is not an ordinary table, or has child tables or row-level security') FROM relation
    WHERE relkind <> 'r' OR relpersistence <> 'p' OR relhassubclass OR relrowsecurity
  ) AS problems WHERE ${CATALOGUE} = $1::text`;

/** The problem that shows in the tokens and not in the catalogue, as after TRUNCATE: then the tokens are not those of the list. */
export const NO_RENEWALS = 'order_list_changes has no row without a block: run SELECT renew_order_list_versions()';

export const SELECT_NAME = `
  SELECT ${CATALOGUE} AS catalogue, sum(token)::text AS tokens, (sum(token) FILTER (WHERE block IS NULL))::text AS renewals
  FROM order_list_changes`;

/** What a version is named by. */
export interface NameRow {
  readonly catalogue: string;
  readonly tokens: string | null;
  /** Of the tokens that concern every block. Null when there are none, see {@link NO_RENEWALS}. */
  readonly renewals: string | null;
}

/** Rows may be merged into those that concern every block, so these are no part of their own in the name. */
export function versionOf({ catalogue, tokens, renewals }: NameRow): ListVersion {
  return { name: `${catalogue}-${wrapped(tokens)}-${REPRESENTATION}`, basis: `${catalogue}-${wrapped(renewals)}` };
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
 */
export function etagOf({ name }: ListVersion): string {
  return `W/"${name}"`;
}

/** Whether an `If-None-Match` header contains this tag, by weak comparison (RFC 9110 section 13.1.2). No tag of the list has a comma. */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = ifNoneMatch?.split(',').map((tag) => tag.trim().replace(/^W\//, '')) ?? [];
  return tags.includes(etag.replace(/^W\//, '')) || ifNoneMatch?.trim() === '*';
}
