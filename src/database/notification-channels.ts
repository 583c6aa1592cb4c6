// Apart from the listener, so that a command that only sends does not load the framework.

/** Carries the SHA-256 (hexadecimal) of an API key that was created, changed or deleted; sent by a trigger on `api_keys`. */
export const API_KEY_CHANGED_CHANNEL = 'api_key_changed';

/** Carries the id of an API key whose ban was lifted; sent by `petstore keys unban`. */
export const API_KEY_UNBANNED_CHANNEL = 'api_key_unbanned';
