import { hash } from 'node:crypto';

/**
 * An API key is `pst_` and 43 random base62 characters (256 bits). The prefix lets secret scanners find leaked keys, and its
 * underscore lets a double click select the whole key.
 */
const KEY = /^pst_[0-9A-Za-z]{43}$/;

/** Whether a token has the format of a key. Such a key need not exist. */
export function isWellFormedKey(token: string): boolean {
  return KEY.test(token);
}

/** SHA-256 of the key in lower-case hexadecimal: what is stored, cached and compared. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}
