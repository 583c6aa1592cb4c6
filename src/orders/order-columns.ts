/** Types of PostgreSQL that the list can show and an import can read, as PostgreSQL prints them. */
export type ColumnType =
  'bigint' | 'integer' | 'boolean' | 'timestamp(3) with time zone' | 'text' | `character varying(${number})`;

export interface OrderColumn {
  /** The name of the property in JSON, and of the field in a file that is imported. */
  readonly name: string;
  readonly column: string;
  readonly type: ColumnType;
  /** May be NULL. The list omits the property then. */
  readonly isOptional?: true;
  /** The lowest value that the database accepts. */
  readonly minimum?: number;
}

/**
 * What the list shows of an order, in this order: the only place that says so. COPY's columns, the encoder, the ETag, the check of the
 * triggers, the document and the import follow from it. The id is the first.
 */
export const ORDER_COLUMNS = [
  { name: 'id', column: 'id', type: 'bigint' },
  { name: 'petId', column: 'pet_id', type: 'bigint' },
  { name: 'quantity', column: 'quantity', type: 'integer', minimum: 1 },
  { name: 'shipDate', column: 'ship_date', type: 'timestamp(3) with time zone', isOptional: true },
  { name: 'complete', column: 'complete', type: 'boolean' },
] as const satisfies readonly OrderColumn[];

export type OrderProperty = (typeof ORDER_COLUMNS)[number]['name'];

/** The most characters of a column of text. @returns Infinity without a limit, undefined for a column of another type */
export function textLengthMax(type: ColumnType): number | undefined {
  const [, limit] = /^character varying\((\d+)\)$/.exec(type) ?? [];
  return type === 'text' ? Infinity : limit === undefined ? undefined : Number(limit);
}
