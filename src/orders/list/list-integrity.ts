/**
 * What versions depend on, as {@link SELECT_FACTS} describes it while it is as the migrations made it: the tables, the columns that the
 * triggers compare and the encoder reads, the triggers, and the functions. The numbers are the MD5 of definitions as PostgreSQL prints
 * them, with the names that the columns of a condition have now; a test prints the new ones when they change.
 */
const EXPECTED = [
  'table orders',
  'table order_list_changes',
  // A row without an id would be in no piece.
  'column orders.id bigint NOT NULL',
  'column orders.pet_id bigint',
  'column orders.quantity integer',
  'column orders.ship_date timestamp(3) with time zone',
  'column orders.complete boolean',
  'column order_list_changes.block bigint',
  'column order_list_changes.token bigint',
  'trigger orders_note_insert ENABLE ALWAYS 66372e75285f11fdad28ab167c185654',
  'trigger orders_note_delete ENABLE ALWAYS 2c96e2ff6558c2a14d5b4fe0622097f2',
  'trigger orders_note_update ENABLE ALWAYS 755fbb18c52c4c6eed637b85e0b79c26',
  'trigger order_list_changes_renew ENABLE ALWAYS cbaff2722ca5cbb9d65cf46ee5bd0daa',
  'function note_order_list_change 72e6336e64e64044a44a6770ee65d059',
  'function renew_changed_order_list_versions 43c4b675576610f060ec56e1c37a10ad',
];

/**
 * Reads the latest catalogue, so it is true of a snapshot only if the catalogue of the snapshot is still the same afterwards. Any other
 * trigger of the side table could change tokens.
 */
export const SELECT_FACTS = `
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

/** Why the list cannot be served from versions, for an operator: what is not as the migrations made it. Empty when it can. */
export function problemsOf(facts: readonly string[]): string[] {
  const missing = EXPECTED.filter((fact) => !facts.includes(fact)).map((fact) => `missing: ${fact}`);
  const others = facts.filter((fact) => !EXPECTED.includes(fact)).map((fact) => `found: ${fact}`);
  return [...missing, ...others];
}

/** The problem that shows in the tokens and not in the catalogue, as after TRUNCATE. */
export const NO_RENEWALS = 'order_list_changes has no row without a block: run SELECT renew_order_list_versions()';
