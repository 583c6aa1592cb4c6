import ipaddr from 'ipaddr.js';

/** The key or address that a request is counted against, as the name of its counters. */
export type Subject = `key:${string}` | `address:${string}`;

/** Requests with a valid key count against the key only. */
export function subjectOfKey(keyId: string): Subject {
  return `key:${keyId}`;
}

export function isKeySubject(subject: string): boolean {
  return subject.startsWith('key:');
}

/**
 * Requests without a valid key count against the client's address: an IPv4 address as it is, an IPv6 address by its /64,
 * which is what one customer gets; an IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) is the IPv4 address.
 */
export function subjectOfAddress(address: string): Subject {
  if (!ipaddr.IPv6.isValid(address)) {
    return `address:${address}`;
  }
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) {
    return `address:${parsed.toIPv4Address().toString()}`;
  }
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `address:${network.join(':')}::/64`;
}
