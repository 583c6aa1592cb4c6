import { originForm, pathOf } from './paths.js';

const LENGTH_MAX = 200;
/** The part of a key that is stored in plain text, also of one in capitals, or whose rest something has been inserted into. */
const KEY_START = /pst_\w{0,6}/i;
const HEX_DIGITS = /^[\da-f]{2}$/i;
const NOT_PRINTABLE = /[^!-~]/g;

/**
 * The path of a request target for the log: without query, as it was sent or, when it contains a key in whatever form, decoded up to
 * the part of the key that is stored in plain text; in printable ASCII, and of bounded length.
 * @returns undefined for a request without a well-formed target
 */
export function loggablePath(target: string): string | undefined {
  if (originForm(target) === undefined) {
    // It may contain a password, which only a well-formed one shows where to cut.
    return undefined;
  }
  // What is cut off is neither logged nor decoded.
  const path = pathOf(target).slice(0, LENGTH_MAX);
  const decoded = decodedFully(path);
  const key = KEY_START.exec(decoded);
  if (key === null) {
    return path === '' ? undefined : printable(path);
  }
  const end = key.index + key[0].length;
  return `${printable(decoded.slice(0, end))}${end < decoded.length ? '…' : ''}`;
}

/** Decodes all escapes, each to one character, also those that decoding others has completed, such as `%41` from `%2541` or `%%341`. */
function decodedFully(path: string): string {
  if (!path.includes('%')) {
    return path;
  }
  const decoded: string[] = [];
  for (const character of path) {
    decoded.push(character);
    while (decoded.at(-3) === '%' && HEX_DIGITS.test(decoded.slice(-2).join(''))) {
      decoded.push(String.fromCharCode(Number.parseInt(decoded.splice(-3).slice(1).join(''), 16)));
    }
  }
  return decoded.join('');
}

function printable(path: string): string {
  return path.replaceAll(NOT_PRINTABLE, encodeURIComponent).slice(0, LENGTH_MAX);
}
