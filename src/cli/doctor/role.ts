import type pg from 'pg';
import { error, listOf, ok, type Result, warning } from './check.js';

/** As in GRANT. */
interface Right {
  readonly privilege: string;
  /** A table, a function with its types, or a schema. */
  readonly object: string;
  readonly column: string | null;
}

/** @param columns separated by spaces; none: the whole table */
function rightsOn(object: string, privilege: string, columns?: string): Right[] {
  return (columns?.split(' ') ?? [null]).map((column) => ({ privilege, object, column }));
}

const NEEDED: readonly Right[] = [
  ...rightsOn('orders', 'SELECT'),
  ...rightsOn('orders', 'UPDATE', 'status cancelled_at'),
  ...rightsOn('api_keys', 'SELECT', 'id key_hash plan requests_per_minute requests_per_day'),
  ...rightsOn('api_keys', 'SELECT', 'expires_at revoked_at last_used_at'),
  ...rightsOn('api_keys', 'UPDATE', 'last_used_at'),
  ...rightsOn('order_list_changes', 'SELECT'),
  ...rightsOn('merge_order_list_changes(bigint, bigint)', 'EXECUTE'),
  ...['SELECT', 'INSERT', 'DELETE'].flatMap((privilege) => rightsOn('api_key_usage', privilege)),
  ...rightsOn('api_key_usage', 'UPDATE', 'admitted rejected banned lists cancels list_bytes'),
];

const textOf = ({ privilege, object, column }: Right): string =>
  `${privilege}${column === null ? '' : ` (${column})`} ON ${privilege === 'EXECUTE' ? 'FUNCTION ' : ''}${object}`;

const NEEDED_TEXTS = NEEDED.map(textOf);

/** What only owners and administrators should have. */
const SUPERFLUOUS = [
  ...['orders', 'api_keys', 'api_key_usage', 'order_list_changes'].flatMap((table) =>
    ['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'].flatMap((each) => rightsOn(table, each)),
  ),
  ...rightsOn('public', 'CREATE'),
].filter((right) => !NEEDED_TEXTS.includes(textOf(right)));

const SELECT_HELD = `
  SELECT ARRAY(
    SELECT CASE
      WHEN privilege = 'EXECUTE' THEN has_function_privilege(object, privilege)
      WHEN privilege = 'CREATE' THEN has_schema_privilege(object, privilege)
      WHEN "column" IS NULL THEN has_table_privilege(object, privilege)
      ELSE has_column_privilege(object, "column", privilege)
    END
    FROM ROWS FROM (json_to_recordset($1) AS (privilege text, object text, "column" text)) WITH ORDINALITY ORDER BY ordinality
  ) AS held`;

/** Whether the login has the rights that the service needs, by a role or by itself, and none of an administrator. */
export async function checkRole(db: pg.Client, { isEmbedded }: { isEmbedded: boolean }): Promise<Result> {
  const { rows } = await db.query<{ held: boolean[] }>(SELECT_HELD, [JSON.stringify([...NEEDED, ...SUPERFLUOUS])]);
  const held = rows[0]?.held ?? [];
  const missing = NEEDED.filter((_, index) => held[index] !== true).map(textOf);
  const superfluous = SUPERFLUOUS.filter((_, index) => held[NEEDED.length + index] === true).map(textOf);
  if (missing.length > 0) {
    return error(
      `"${db.user}" lacks ${listOf(missing)}`,
      'Make it a member of petstore_service that inherits its rights. If it is one, grant to that role what the migrations grant.',
    );
  }
  return superfluous.length > 0 && !isEmbedded
    ? warning(
        `"${db.user}" has more than the service needs: ${listOf(superfluous)}`,
        'Give the service a login that is a member of petstore_service only.',
      )
    : ok(`"${db.user}" has what the service needs, and nothing of an administrator`);
}
