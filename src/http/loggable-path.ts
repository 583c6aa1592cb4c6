import { redactKeys } from '../common/redact-keys.js';
import { originForm, pathOf } from './paths.js';

const LENGTH_MAX = 200;
/** Of what is escaped more than once. */
const ESCAPED_PERCENT = /%(?:25)+/g;
/** Letters, digits and the underscore, all that a key consists of. */
const ESCAPED_KEY_CHARACTER = /%(?:3\d|[46][1-9a-f]|[57][\da]|5f)/gi;
const NOT_PRINTABLE = /[^!-~]/g;

/**
 * The path of a request target for the log: without query and keys, in printable ASCII, and of bounded length.
 * @returns undefined for a request without a well-formed target
 */
export function loggablePath(target: string): string | undefined {
  if (originForm(target) === undefined) {
    // It may contain a password, which only a well-formed one shows where to cut.
    return undefined;
  }
  const path = pathOf(target)
    .replaceAll(ESCAPED_PERCENT, '%')
    .replaceAll(ESCAPED_KEY_CHARACTER, (escaped) => decodeURIComponent(escaped))
    .replaceAll(NOT_PRINTABLE, encodeURIComponent);
  return path === '' ? undefined : redactKeys(path).slice(0, LENGTH_MAX);
}
