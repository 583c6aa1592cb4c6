import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * An API key reads `pst_` + 43 base62 characters + 6 base62 characters of checksum. 43 characters of 62 hold 256 bits;
 * the checksum (CRC-32 of all that stands before it) turns a typing error or a guess away without a database query. The
 * underscore keeps a double click on the whole key, and the prefix lets secret scanners find leaked keys.
 */
const PREFIX = 'pst_';
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const KEY = /^pst_[0-9A-Za-z]{49}$/;

/** Characters of a key that are kept in the clear, to recognise it by in a list. */
export const DISPLAY_PREFIX_LENGTH = PREFIX.length + 6;

/** Makes a new key from the operating system's random source. */
export function generateKey(): string {
  let body = PREFIX;
  for (let index = 0; index < SECRET_LENGTH; index++) {
    body += BASE62.charAt(randomInt(BASE62.length));
  }
  return body + checksumOf(body);
}

/** Whether a token has the form of a key and a checksum that fits. Says nothing about whether the key exists. */
export function isWellFormedKey(token: string): boolean {
  return KEY.test(token) && checksumOf(token.slice(0, -CHECKSUM_LENGTH)) === token.slice(-CHECKSUM_LENGTH);
}

/** SHA-256 of the key in lower-case hexadecimal: what is stored, cached and compared. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}

function checksumOf(body: string): string {
  let rest = crc32(body);
  let checksum = '';
  for (let index = 0; index < CHECKSUM_LENGTH; index++) {
    checksum = BASE62.charAt(rest % BASE62.length) + checksum;
    rest = Math.floor(rest / BASE62.length);
  }
  return checksum;
}
