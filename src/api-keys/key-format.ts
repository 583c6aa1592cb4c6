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

/** Cuts the keys in a text, also incomplete ones, to the part that is stored in plain text. */
export function redactKeys(text: string): string {
  return text.replaceAll(/(pst_\w{6})\w+/g, '$1…');
}

/** SHA-256 of the key in lower-case hexadecimal: what is stored, cached and compared. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}
