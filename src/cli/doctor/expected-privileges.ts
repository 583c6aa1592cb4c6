/** The role that the migrations grant the privileges of the service; a login gets them by membership. */
export const SERVICE_ROLE = 'petstore_service';

/** What the migrations grant the role, by table and privilege: some columns, or the whole table. */
export const SERVICE_PRIVILEGES: Readonly<Record<string, Readonly<Record<string, 'table' | readonly string[]>>>> = {
  orders: { SELECT: 'table', UPDATE: ['status', 'cancelled_at'] },
  api_keys: {
    SELECT: ['id', 'key_hash', 'plan', 'requests_per_minute', 'requests_per_day', 'expires_at', 'revoked_at'],
    UPDATE: ['last_used_at'],
  },
  order_list_changes: { SELECT: 'table' },
  api_key_usage: {
    SELECT: 'table',
    INSERT: 'table',
    DELETE: 'table',
    UPDATE: ['admitted', 'rejected', 'banned', 'lists', 'cancels', 'list_bytes'],
  },
  api_key_usage_writers: {
    SELECT: 'table',
    INSERT: 'table',
    DELETE: 'table',
    UPDATE: ['last_batch', 'written_at'],
  },
};
