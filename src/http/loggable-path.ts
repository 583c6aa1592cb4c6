import { originForm, pathOf } from './paths.js';

const LENGTH_MAX = 200;
/**
 * The start of a path up to a key, of which the part that is stored in plain text, also of one in capitals, or up to the first percent
 * sign or backslash: escapes may spell a key, and escape each other.
 */
const LOGGABLE = /^[^%\\]*?pst_\w{0,6}|^[^%\\]*/i;
const NOT_PRINTABLE = /[^!-~]/g;

/**
 * The path of a request target for the log: without query, key and escapes, in printable ASCII, and of bounded length.
 * @returns undefined for a request without a well-formed target
 */
export function loggablePath(target: string): string | undefined {
  if (originForm(target) === undefined) {
    // It may contain a password, which only a well-formed one shows where to cut.
    return undefined;
  }
  const path = pathOf(target);
  const [loggable = ''] = LOGGABLE.exec(path) ?? [];
  const printable = loggable.replaceAll(NOT_PRINTABLE, encodeURIComponent).slice(0, LENGTH_MAX);
  return `${printable}${loggable.length < path.length ? '…' : ''}`;
}
