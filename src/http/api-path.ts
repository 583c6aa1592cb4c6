/** The path segment that all operations of the interface live under; the version is part of the base address. */
export const API_VERSION = 'v1';

const API_ROOT = `/${API_VERSION}`;

/** Whether a request target lies under the API's version segment, and so under keys and limits. */
export function isApiPath(target: string): boolean {
  if (!target.startsWith(API_ROOT)) {
    return !target.startsWith('/') && isApiUrl(target);
  }
  const next = target.charCodeAt(API_ROOT.length);
  return Number.isNaN(next) || next === SLASH || next === QUESTION_MARK;
}

const SLASH = '/'.charCodeAt(0);
const QUESTION_MARK = '?'.charCodeAt(0);

/** A target in absolute form (RFC 9112 section 3.2.2), as a proxy is sent it. */
function isApiUrl(target: string): boolean {
  return URL.canParse(target) && isApiPath(new URL(target).pathname);
}

/**
 * Reads percent signs that encode nothing as what they are, the way the WHATWG URL standard does. Without that the
 * router answers such a target before any route, and so before keys and limits.
 */
export function withLiteralPercents(target: string): string {
  if (!target.includes('%')) {
    return target;
  }
  return target
    .replace(LONE_PERCENT, '%25')
    .replace(ENCODED_BYTES, (bytes) => (isUtf8(bytes) ? bytes : bytes.replaceAll('%', '%25')));
}

const LONE_PERCENT = /%(?![0-9A-Fa-f]{2})/g;
const ENCODED_BYTES = /(?:%[0-9A-Fa-f]{2})+/g;

function isUtf8(encodedBytes: string): boolean {
  try {
    decodeURIComponent(encodedBytes);
    return true;
  } catch {
    return false;
  }
}
