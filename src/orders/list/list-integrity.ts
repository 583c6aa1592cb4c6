import { createHash } from 'node:crypto';
import { ORDER_COLUMNS } from '../order-columns.js';

/**
 * What versions depend on, as {@link problemsOf} summarizes it while it is as the migrations made it: the tables, the columns that the
 * triggers compare and the encoder reads, the triggers, and the functions. The numbers are digests of definitions as PostgreSQL prints
 * them, with the names that the columns of a condition have now; a test prints the new ones when they change.
 */
const EXPECTED = [
  'table orders',
  'table order_list_changes',
  // A row without an id would be in no piece.
  ...ORDER_COLUMNS.map(({ column, type }) => `column orders.${column} ${type}${column === 'id' ? ' NOT NULL' : ''}`),
  'column order_list_changes.block bigint',
  'column order_list_changes.token bigint',
  'trigger orders_note_insert ENABLE ALWAYS 742ec9242175e9900fe032923025d77e',
  'trigger orders_note_delete ENABLE ALWAYS 8ee273548103998e12239118186d381e',
  // Without the columns that it compares by IS DISTINCT FROM, which follow.
  'trigger orders_note_update ENABLE ALWAYS 13bd519381da365cd22687a1185d5559',
  ...ORDER_COLUMNS.filter(({ column }) => column !== 'id').map(({ column }) => comparing(column)),
  'trigger order_list_changes_renew ENABLE ALWAYS ccab2860c27507387143eeeafa8124a9',
  'function note_order_list_change 9c868aec149ef9e59ecfab7aa3fa8f5c',
  'function renew_changed_order_list_versions 8abc686830a8555f9d29147c2c108542',
];

const COLUMNS = [...ORDER_COLUMNS.map(({ column }) => column), 'block', 'token'].map((column) => `'${column}'`).join();

/**
 * Reads the latest catalogue, so it is true of a snapshot only if the catalogue of the snapshot is still the same afterwards. Any other
 * trigger of the side table could change tokens. A collation may take different texts for equal, and so may a trigger then.
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
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = attrelid AND conkey = ARRAY[attnum] AND contype = 'n' AND NOT convalidated) THEN ' NOT NULL' END,
      (SELECT ', with a nondeterministic collation' FROM pg_collation WHERE oid = attcollation AND NOT collisdeterministic))
    FROM relation JOIN pg_attribute ON attrelid = relation.oid
    WHERE attname IN (${COLUMNS})
    UNION ALL
    SELECT concat('trigger ', tgname, CASE tgenabled WHEN 'A' THEN ' ENABLE ALWAYS ' WHEN 'D' THEN ' DISABLE ' ELSE ' ENABLE ' END,
      pg_get_triggerdef(pg_trigger.oid))
    FROM relation JOIN pg_trigger ON tgrelid = relation.oid
    WHERE relname = 'order_list_changes' OR tgname IN ('orders_note_insert', 'orders_note_delete', 'orders_note_update')
    UNION ALL
    SELECT concat('function ', proname, ' ', pg_get_functiondef(pg_proc.oid))
    FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace AND nspname = 'public'
    WHERE proname IN ('note_order_list_change', 'renew_changed_order_list_versions') AND pronargs = 0
  ) AS facts`;

/** Why the list cannot be served from versions, for an operator: what is not as the migrations made it. Empty when it can. */
export function problemsOf(facts: readonly string[]): string[] {
  const found = facts.flatMap(summarize);
  const missing = EXPECTED.filter((fact) => !found.includes(fact)).map((fact) => `missing: ${fact}`);
  // A release that lists one column more may be on its way: comparing more gives more versions than needed, and never too few.
  const others = found.filter((fact) => !EXPECTED.includes(fact) && !fact.startsWith(comparing('')));
  return [...missing, ...others.map((fact) => `found: ${fact}`)];
}

function comparing(column: string): string {
  return `trigger orders_note_update compares ${column}`;
}

/** Compared columns, after the id, as PostgreSQL prints the condition of the trigger; of text, with a cast. */
const COMPARED = / OR \(\(?old\.(\w+)(?:\)::text)? IS DISTINCT FROM \(?new\.\1(?:\)::text)?\)/g;
const ALL_COMPARED = new RegExp(`(?<=WHEN \\(\\(\\(old\\.id <> new\\.id\\))(?:${COMPARED.source})+(?=\\) AND )`);

/** Replaces a definition by its digest; the columns that it compares are facts of their own. */
function summarize(fact: string): string[] {
  const at = fact.indexOf(' CREATE ');
  if (at === -1) {
    return [fact];
  }
  const [what, definition] = [fact.slice(0, at), fact.slice(at + 1)];
  const compared = ALL_COMPARED.exec(definition)?.[0] ?? '';
  const digest = createHash('sha256').update(definition.replace(ALL_COMPARED, '')).digest('hex').slice(0, 32);
  return [`${what} ${digest}`, ...Array.from(compared.matchAll(COMPARED), ([, column = '']) => comparing(column))];
}

/** The problem that shows in the tokens and not in the catalogue, as after TRUNCATE. */
export const NO_RENEWALS = 'order_list_changes has no row without a block: run SELECT renew_order_list_versions()';
