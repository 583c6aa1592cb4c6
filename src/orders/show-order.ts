import type pg from 'pg';

const time = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** PostgreSQL writes the JSON: a JavaScript number would round the ids. */
const SELECT_ORDER = `
  SELECT *, row_to_json(shown, true)::text AS json
  FROM (
    SELECT id, pet_id AS "petId", quantity, ${time('ship_date')} AS "shipDate", complete, status,
           ${time('created_at')} AS "createdAt", ${time('cancelled_at')} AS "cancelledAt"
    FROM orders WHERE id = $1
  ) AS shown`;

/** The fields of an order as texts, and the JSON of all of them. Times are RFC 3339 in UTC. */
export type ShownOrder = Readonly<Record<string, string | number | boolean | null> & { json: string }>;

/** @returns undefined when there is no such order */
export async function findOrder(db: pg.ClientBase, id: bigint): Promise<ShownOrder | undefined> {
  return (await db.query<ShownOrder>(SELECT_ORDER, [String(id)])).rows[0];
}
