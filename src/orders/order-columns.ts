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

/** A column with what the API document says of it. */
export interface DescribedColumn extends OrderColumn {
  readonly description: string;
  readonly example: unknown;
}

/**
 * What the list shows of an order, in this order: the only place that says so. COPY's columns, the encoder, the ETag, the check of the
 * triggers, the document, and the columns of the import and of `petstore orders show` follow from it. The id is the first.
 */
export const ORDER_COLUMNS = [
  { name: 'id', column: 'id', type: 'bigint', description: 'Unique order identifier.', example: 10 },
  {
    name: 'petId',
    column: 'pet_id',
    type: 'bigint',
    description: 'Identifier of the animal in the order.',
    example: 198_772,
  },
  {
    name: 'quantity',
    column: 'quantity',
    type: 'integer',
    minimum: 1,
    description: 'Number of units ordered.',
    example: 2,
  },
  {
    name: 'shipDate',
    column: 'ship_date',
    type: 'timestamp(3) with time zone',
    isOptional: true,
    description: 'Expected or actual ship date, in UTC with milliseconds; omitted when there is none.',
    example: '2026-11-21T09:30:00.000Z',
  },
  {
    name: 'complete',
    column: 'complete',
    type: 'boolean',
    description: 'Whether the order has been fulfilled.',
    example: false,
  },
] as const satisfies readonly DescribedColumn[];

/** The most characters of a column of text. @returns Infinity without a limit, undefined for a column of another type */
export function textLengthMax(type: ColumnType): number | undefined {
  const [, limit] = /^character varying\((\d+)\)$/.exec(type) ?? [];
  return type === 'text' ? Infinity : limit === undefined ? undefined : Number(limit);
}
