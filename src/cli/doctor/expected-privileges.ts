/** The role that the migrations grant the privileges of the service; a login gets them by membership. */
export const SERVICE_ROLE = 'petstore_service';

/** What the migrations grant the role, by object and privilege: some columns, or the whole object. */
export const SERVICE_PRIVILEGES: Readonly<Record<string, Readonly<Record<string, 'whole' | readonly string[]>>>> = {
  orders: { SELECT: 'whole', UPDATE: ['status', 'cancelled_at'] },
  api_keys: {
    SELECT: [
      'id',
      'key_hash',
      'plan',
      'requests_per_minute',
      'requests_per_day',
      'expires_at',
      'revoked_at',
      'last_used_at',
    ],
    UPDATE: ['last_used_at'],
  },
  order_list_changes: { SELECT: 'whole' },
  'FUNCTION compact_order_list_changes(bigint)': { EXECUTE: 'whole' },
  api_key_usage: {
    SELECT: 'whole',
    INSERT: 'whole',
    DELETE: 'whole',
    UPDATE: ['admitted', 'rejected', 'banned', 'lists', 'cancels', 'list_bytes'],
  },
};
