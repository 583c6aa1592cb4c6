/** Carries the SHA-256 (hexadecimal) of a key that was made, changed or deleted; sent by a trigger on `api_keys`. */
export const API_KEY_CHANGED_CHANNEL = 'api_key_changed';

/** Carries the id of a key whose ban was lifted; sent by `petstore keys unban`. */
export const API_KEY_UNBANNED_CHANNEL = 'api_key_unbanned';
