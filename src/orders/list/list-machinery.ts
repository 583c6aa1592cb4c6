import { CATALOGUE } from './list-version.js';

/** The columns of the list, as the triggers compare them and the encoder reads them. A row without an id is in no piece. */
const COLUMNS = [
  ['orders', 'id', 'bigint NOT NULL'],
  ['orders', 'pet_id', 'bigint'],
  ['orders', 'quantity', 'integer'],
  ['orders', 'ship_date', 'timestamp(3) with time zone'],
  ['orders', 'complete', 'boolean'],
  ['order_list_changes', 'block', 'bigint'],
  ['order_list_changes', 'token', 'bigint'],
] as const;

/**
 * The triggers and functions of the migration, with the MD5 of their definitions as PostgreSQL prints them: with the names that the
 * columns of a condition have now. A test prints the new ones when they change.
 */
export const TRIGGERS = [
  ['orders', 'orders_note_insert', '66372e75285f11fdad28ab167c185654'],
  ['orders', 'orders_note_delete', '2c96e2ff6558c2a14d5b4fe0622097f2'],
  ['orders', 'orders_note_update', '755fbb18c52c4c6eed637b85e0b79c26'],
  ['order_list_changes', 'order_list_changes_renew', 'cbaff2722ca5cbb9d65cf46ee5bd0daa'],
] as const;
const FUNCTIONS = [
  ['note_order_list_change', 'aa1c31f1b8cef3a59d24b206e5531060'],
  ['renew_changed_order_list_versions', '5c0e2e8fed5bc3306b95b663601962b8'],
] as const;

function values(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => `(${row.map((value) => `'${value}'`).join(', ')})`).join(', ');
}

/**
 * Why the list cannot be served from versions, as texts for an operator; none when it can. It reads the latest catalogue, so it is
 * true of a snapshot only if the catalogue of the snapshot is still the same afterwards.
 */
export const SELECT_PROBLEMS = `
  WITH relation AS (
    SELECT pg_class.* FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace AND nspname = 'public'
    WHERE relname IN ('orders', 'order_list_changes')
  )
  SELECT ARRAY(
    SELECT format('the table %s is missing', name) FROM unnest(ARRAY['orders', 'order_list_changes']) AS name
    WHERE name NOT IN (SELECT relname FROM relation)
    UNION ALL
    SELECT format('%s is not an ordinary, logged table', relname) FROM relation WHERE relkind <> 'r' OR relpersistence <> 'p'
    UNION ALL
    SELECT format('%s has child tables (if it has none any more, run ANALYZE %1$s)', relname) FROM relation WHERE relhassubclass
    UNION ALL
    SELECT format('%s has row-level security', relname) FROM relation WHERE relrowsecurity
    UNION ALL
    SELECT 'order_list_changes has rules' FROM relation WHERE relname = 'order_list_changes' AND relhasrules
    UNION ALL
    SELECT format('the column %s of %s is not a %s', expected.name, expected.relation, type)
    FROM (VALUES ${values(COLUMNS)}) AS expected (relation, name, type)
    WHERE NOT EXISTS (
      SELECT FROM relation JOIN pg_attribute ON attrelid = relation.oid
      WHERE relname = expected.relation AND attname = expected.name
        AND type IN (format_type(atttypid, atttypmod), format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' END)
    )
    UNION ALL
    SELECT format('the trigger %s is missing, changed or not ENABLE ALWAYS', name)
    FROM (VALUES ${values(TRIGGERS)}) AS expected (relation, name, definition)
    WHERE NOT EXISTS (
      SELECT FROM relation JOIN pg_trigger ON tgrelid = relation.oid
      WHERE relname = expected.relation AND tgname = name AND tgenabled = 'A' AND md5(pg_get_triggerdef(pg_trigger.oid)) = definition
    )
    UNION ALL
    SELECT format('order_list_changes has the trigger %s', tgname) FROM pg_trigger JOIN relation ON tgrelid = relation.oid
    WHERE relname = 'order_list_changes' AND tgname <> 'order_list_changes_renew'
    UNION ALL
    SELECT format('the function %s is missing or changed', name) FROM (VALUES ${values(FUNCTIONS)}) AS expected (name, definition)
    WHERE NOT EXISTS (
      SELECT FROM pg_proc WHERE oid = to_regprocedure('public.' || name || '()') AND md5(pg_get_functiondef(oid)) = definition
    )
  ) AS problems`;

/** The catalogue alone; it can be read whatever is missing. */
export const SELECT_CATALOGUE = `SELECT ${CATALOGUE} AS catalogue`;

/** The tables that a list of the whole table reads, each with the transaction that attached it to its parent. */
export const SELECT_CHILDREN = `
  WITH RECURSIVE child AS (
    SELECT inherits.* FROM pg_inherits AS inherits JOIN pg_class ON pg_class.oid = inhparent
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') AND relname = 'orders'
    UNION ALL
    SELECT inherits.* FROM pg_inherits AS inherits JOIN child ON inherits.inhparent = child.inhrelid
  )
  SELECT string_agg(concat(inhrelid, ' ', inhparent), ',' ORDER BY inhrelid, inhparent) AS children FROM child`;

/** The problem that shows in the tokens and not in the catalogue, as after TRUNCATE. */
export const NO_RENEWALS = 'order_list_changes has no row without a block: run SELECT renew_order_list_versions()';
