import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * An API key is `pst_`, 43 random base62 characters (256 bits) and a checksum of 6 base62 characters: the CRC-32 of the
 * preceding characters. With the checksum, a mistyped key is rejected without a database query. The prefix lets secret
 * scanners find leaked keys, and its underscore lets a double click select the whole key.
 */
const PREFIX = 'pst_';
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const KEY = /^pst_[0-9A-Za-z]{49}$/;

/** Length of the part of a key that is stored in plain text, to identify the key in lists. */
export const DISPLAY_PREFIX_LENGTH = PREFIX.length + 6;

/** Generates a key with the operating system's random number generator. */
export function generateKey(): string {
  let body = PREFIX;
  for (let index = 0; index < SECRET_LENGTH; index++) {
    body += BASE62.charAt(randomInt(BASE62.length));
  }
  return body + checksumOf(body);
}

/** Whether a token has the format of a key and a correct checksum. Such a key need not exist. */
export function isWellFormedKey(token: string): boolean {
  return KEY.test(token) && checksumOf(token.slice(0, -CHECKSUM_LENGTH)) === token.slice(-CHECKSUM_LENGTH);
}

/** Cuts the keys in a text, also incomplete ones, to the part that is stored in plain text. */
export function redactKeys(text: string): string {
  return text.replaceAll(/(pst_\w{6})\w+/g, '$1…');
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
