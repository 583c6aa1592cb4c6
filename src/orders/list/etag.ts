/**
 * The entity tag of a version of the list. Weak (RFC 9110 section 8.8.1), because it identifies the orders and not the
 * bytes: a compressed and an uncompressed list have the same tag.
 * @param version the name of the version, see {@link ListVersion.name}
 */
export function etagOf(version: string): string {
  return `W/"${version}"`;
}

const OPAQUE_TAG = /(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g;

/** Whether an `If-None-Match` header contains this tag, by weak comparison (RFC 9110 sections 8.8.3.2 and 13.1.2). */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) {
    return false;
  }
  if (ifNoneMatch === etag || ifNoneMatch.trim() === '*') {
    return true;
  }
  const opaque = etag.slice('W/'.length);
  return Array.from(ifNoneMatch.matchAll(OPAQUE_TAG)).some((match) => match[1] === opaque);
}
