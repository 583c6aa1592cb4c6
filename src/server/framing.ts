import type { IncomingMessage } from 'node:http';
import { DomainError } from '../errors/domain-error.js';

const HOST = 'host';

/** `uri-host [ ":" port ]` (RFC 9110 section 7.2), without judging what stands inside the brackets of an IP literal. */
const WELL_FORMED = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~!$&'()*+,;=%]*)(?::\d*)?$/;

/** Whether a request says what host it wants as RFC 9112 section 3.2 demands: HTTP/1.1 exactly once, HTTP/1.0 at most. */
function hasValidHost(rawHeaders: readonly string[], httpVersionMinor: number): boolean {
  let seen = false;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index];
    if (name?.length !== HOST.length || name.toLowerCase() !== HOST) {
      continue;
    }
    if (seen || !WELL_FORMED.test(rawHeaders[index + 1] ?? '')) {
      return false;
    }
    seen = true;
  }
  return seen || httpVersionMinor === 0;
}

/** What is wrong with the way a request is put together, where Node's parser lets it pass. */
export function framingError({ rawHeaders, headers, httpVersionMinor }: IncomingMessage): DomainError | undefined {
  if (!hasValidHost(rawHeaders, httpVersionMinor)) {
    return new DomainError('bad_request', 'There must be one Host header with a host.');
  }
  const coding = headers['transfer-encoding'];
  // RFC 9112 section 6.1: a coding that does not end in chunks, and any coding in HTTP/1.0, which knows none, leave nobody
  // sure where the request ends.
  return coding === undefined || (coding.toLowerCase() === 'chunked' && httpVersionMinor > 0)
    ? undefined
    : new DomainError('bad_request', 'The only transfer coding that is understood is chunked.');
}
