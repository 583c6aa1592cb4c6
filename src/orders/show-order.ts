import type pg from 'pg';
import { ORDER_COLUMNS } from './order-columns.js';

const time = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** As in the list, in its order. */
const LISTED = ORDER_COLUMNS.map(({ name, column, type }) => {
  return `${type.startsWith('timestamp') ? time(column) : column} AS "${name}"`;
}).join();

/** What is shown of an order, in this order. */
export const SHOWN_FIELDS = [...ORDER_COLUMNS.map(({ name }) => name), 'status', 'createdAt', 'cancelledAt'];

/** PostgreSQL writes the JSON: a JavaScript number would round the ids. */
const SELECT_ORDER = `
  SELECT *, row_to_json(shown, true)::text AS json
  FROM (
    SELECT ${LISTED}, status, ${time('created_at')} AS "createdAt", ${time('cancelled_at')} AS "cancelledAt"
    FROM orders WHERE id = $1
  ) AS shown`;

/** The fields of an order as texts, and the JSON of all of them. Times are RFC 3339 in UTC. */
export type ShownOrder = Readonly<Record<string, string | number | boolean | null> & { json: string }>;

/** @returns undefined when there is no such order */
export async function findOrder(db: pg.ClientBase, id: bigint): Promise<ShownOrder | undefined> {
  return (await db.query<ShownOrder>(SELECT_ORDER, [String(id)])).rows[0];
}
