import { ORDER_COLUMNS, type OrderColumn } from '../../orders/order-columns.js';

/** What a column of the list has besides its type. */
const ADDITIONS: Readonly<Record<string, string>> = { id: ' IDENTITY', complete: ' DEFAULT false' };

const LISTED = ORDER_COLUMNS.map(({ column, type, isOptional }: OrderColumn) => {
  return `column orders.${column} ${type}${isOptional === true ? '' : ' NOT NULL'}${ADDITIONS[column] ?? ''}`;
});

/** The trigger reports all keys. */
export const NOTIFIES = 'trigger api_keys_notify_changed ENABLE ALWAYS';

/**
 * What the migrations make, apart from the triggers of the list, as {@link SELECT_SCHEMA} describes it. The numbers are the MD5 of
 * definitions as PostgreSQL prints them. A test compares it with a migrated database, and prints the new lines when a migration changes it.
 */
export const EXPECTED_SCHEMA: readonly string[] = String.raw`
  table api_key_usage, ordinary, without row-level security
  table api_keys, ordinary, without row-level security
  table order_list_changes, ordinary, without row-level security
  table orders, ordinary, without row-level security
  column api_key_usage.key_id uuid NOT NULL
  column api_key_usage.day date NOT NULL
  column api_key_usage.admitted bigint NOT NULL
  column api_key_usage.rejected bigint NOT NULL
  column api_key_usage.banned bigint NOT NULL
  column api_key_usage.lists bigint NOT NULL
  column api_key_usage.cancels bigint NOT NULL
  column api_key_usage.list_bytes bigint NOT NULL
  column api_keys.id uuid NOT NULL DEFAULT gen_random_uuid()
  column api_keys.name text NOT NULL
  column api_keys.key_prefix text NOT NULL
  column api_keys.key_hash bytea NOT NULL
  column api_keys.plan plan NOT NULL
  column api_keys.requests_per_minute integer
  column api_keys.requests_per_day integer
  column api_keys.created_at timestamp(3) with time zone NOT NULL DEFAULT CURRENT_TIMESTAMP
  column api_keys.expires_at timestamp(3) with time zone
  column api_keys.revoked_at timestamp(3) with time zone
  column api_keys.successor_id uuid
  column api_keys.last_used_at timestamp(3) with time zone
  column order_list_changes.block bigint
  column order_list_changes.token bigint NOT NULL
  ${LISTED.join('\n')}
  column orders.status order_status NOT NULL DEFAULT 'pending'::order_status
  column orders.created_at timestamp(3) with time zone NOT NULL DEFAULT CURRENT_TIMESTAMP
  column orders.cancelled_at timestamp(3) with time zone
  sequence of orders.id orders_id_seq
  constraint api_key_usage_pkey PRIMARY KEY (day, key_id)
  constraint api_keys_expires_at_finite CHECK (isfinite(expires_at))
  constraint api_keys_key_hash_sha256 CHECK ((octet_length(key_hash) = 32))
  constraint api_keys_name_not_blank CHECK ((btrim(name) <> ''::text))
  constraint api_keys_name_printable CHECK ((name !~ '[\u0001-\u001F\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]'::text))
  constraint api_keys_name_without_key CHECK ((name !~ 'pst_[0-9A-Za-z]{43}'::text))
  constraint api_keys_pkey PRIMARY KEY (id)
  constraint api_keys_quotas_iff_enterprise CHECK ((((requests_per_minute IS NOT NULL) = (plan = 'enterprise'::plan)) AND ((requests_per_day IS NOT NULL) = (plan = 'enterprise'::plan))))
  constraint api_keys_quotas_positive CHECK (((requests_per_minute >= 1) AND (requests_per_day >= 1)))
  constraint orders_cancelled_at_iff_cancelled CHECK (((cancelled_at IS NOT NULL) = (status = 'cancelled'::order_status)))
  constraint orders_complete_implies_shipped CHECK (((NOT complete) OR (status = 'shipped'::order_status)))
  constraint orders_pkey PRIMARY KEY (id)
  constraint orders_quantity_positive CHECK ((quantity >= 1))
  constraint orders_ship_date_rfc3339 CHECK (((ship_date >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (ship_date < '10000-01-01 00:00:00+00'::timestamp with time zone)))
  CREATE UNIQUE INDEX api_keys_key_hash_key ON public.api_keys USING btree (key_hash)
  ${NOTIFIES}
  type order_status pending, shipped, cancelled
  type plan free, pro, business, enterprise
  function compact_order_list_changes(bigint) e66978dc89180dfdefd41e9f67febc04
  function merge_order_list_changes(bigint,bigint) e91d4f816b1602a137285d869dff8a73
  function note_order_list_blocks(bigint,bigint) f16092c3a9912f7650fd2b651c8352d8
  function note_order_list_change() 72e6336e64e64044a44a6770ee65d059
  function notify_api_key_changed() 0de7d6889019ba56f4cd205c195cedbc
  function renew_changed_order_list_versions() 43c4b675576610f060ec56e1c37a10ad
  function renew_order_list_versions() 641cd58a15a1a7d2b29af25405806d3c`
  .trim()
  .split(/\n\s*/);

/** In one statement. Prints definitions with the search path `public` and times in UTC. */
export const SELECT_SCHEMA = `
  WITH relation AS (
    SELECT * FROM pg_class WHERE relnamespace = 'public'::regnamespace
      AND relname IN ('orders', 'api_keys', 'order_list_changes', 'api_key_usage')
  )
  SELECT concat('table ', relname, CASE WHEN relkind = 'r' AND relpersistence = 'p' THEN ', ordinary' END,
    CASE WHEN NOT relrowsecurity THEN ', without row-level security' END) AS fact FROM relation
  UNION ALL
  SELECT concat('column ', relname, '.', attname, ' ', format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ' NOT NULL' END,
    CASE WHEN attidentity <> '' THEN ' IDENTITY' END, ' DEFAULT ' || pg_get_expr(adbin, adrelid))
  FROM relation JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  UNION ALL
  SELECT 'sequence of orders.id ' || sequence.relname
  FROM relation JOIN pg_depend ON refobjid = relation.oid AND classid = 'pg_class'::regclass AND deptype = 'i'
    JOIN pg_class AS sequence ON sequence.oid = objid AND sequence.relkind = 'S'
  WHERE relation.relname = 'orders'
  UNION ALL
  SELECT concat('constraint ', conname, ' ', pg_get_constraintdef(pg_constraint.oid))
  FROM relation JOIN pg_constraint ON conrelid = relation.oid
  UNION ALL
  SELECT pg_get_indexdef(indexrelid) FROM relation JOIN pg_index ON indrelid = relation.oid AND indisvalid
  UNION ALL
  SELECT concat('trigger ', tgname, ' ENABLE ALWAYS') FROM relation JOIN pg_trigger ON tgrelid = relation.oid
  WHERE tgname = 'api_keys_notify_changed' AND tgenabled = 'A' AND NOT relhassubclass
  UNION ALL
  SELECT concat('type ', typname, ' ', (SELECT string_agg(enumlabel, ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = pg_type.oid))
  FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype = 'e'
  UNION ALL
  SELECT concat('function ', oid::regprocedure, ' ', md5(pg_get_functiondef(oid)))
  FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'`;

/** What must have one owner, as in ALTER. */
const OWNED = [
  'TABLE _prisma_migrations',
  ...EXPECTED_SCHEMA.flatMap((fact) => {
    const [, kind = '', name = ''] = /^(table|type|function) (\w+(?:\(.*\))?)/.exec(fact) ?? [];
    return kind === '' ? [] : [`${kind.toUpperCase()} ${name}`];
  }),
];

/** What belongs to another role than most of what the migrations made. Names are as in ALTER. */
export const SELECT_FOREIGN = `
  WITH object AS (
    SELECT 'TABLE ' || relname AS name, relowner AS owner FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'TYPE ' || typname, typowner FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype = 'e'
    UNION ALL
    SELECT 'FUNCTION ' || oid::regprocedure, proowner FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  ), owned AS (
    SELECT name, owner FROM object WHERE name IN (${OWNED.map((name) => `'${name}'`).join(', ')})
  ), rightful AS (
    SELECT mode() WITHIN GROUP (ORDER BY owner) AS role FROM owned
  )
  SELECT name, owner::regrole::text AS owner, role::regrole::text AS rightful FROM owned, rightful WHERE owner <> role ORDER BY name`;
