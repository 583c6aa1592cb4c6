/**
 * The first digits of the SHA-256 of what the migrations make, as PostgreSQL prints it. Columns are the matter of other checks: those of
 * the list and of the rights. Written by `EXPECTED_SCHEMA=write npx jest test/commands/doctor`.
 */
export const EXPECTED: Readonly<Record<string, string>> = {
  'constraint api_key_usage_pkey of api_key_usage': '795436af',
  'constraint api_keys_expires_at_finite of api_keys': '4d8beb31',
  'constraint api_keys_key_hash_sha256 of api_keys': '68c69547',
  'constraint api_keys_name_not_blank of api_keys': 'dd91a196',
  'constraint api_keys_name_printable of api_keys': '678e5f9e',
  'constraint api_keys_name_without_key of api_keys': '0a919188',
  'constraint api_keys_pkey of api_keys': '8c8464f4',
  'constraint api_keys_quotas_iff_enterprise of api_keys': '3e97b43f',
  'constraint api_keys_quotas_positive of api_keys': '42e0f36b',
  'constraint orders_cancelled_at_iff_cancelled of orders': '1eeaae41',
  'constraint orders_complete_implies_shipped of orders': 'ec6e9972',
  'constraint orders_pkey of orders': '8c8464f4',
  'constraint orders_quantity_positive of orders': 'a2ac99cd',
  'constraint orders_ship_date_rfc3339 of orders': '0c968103',
  'function compact_order_list_changes': 'c8fad6af',
  'function merge_order_list_changes': 'd0783e1e',
  'function note_order_list_blocks': '23001246',
  'function note_order_list_change': '9c868aec',
  'function notify_api_key_changed': '54fa5572',
  'function renew_changed_order_list_versions': '8abc6868',
  'function renew_order_list_versions': '7bd31519',
  'index api_keys_key_hash_key': '8223e256',
  'trigger api_keys_notify_changed of api_keys': 'c5758a38',
  'trigger order_list_changes_renew of order_list_changes': '03011c6d',
  'trigger orders_note_delete of orders': 'cc40e4c8',
  'trigger orders_note_insert of orders': 'f4718fbd',
  'trigger orders_note_update of orders': '9b86aaa3',
};
