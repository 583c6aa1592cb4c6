import ipaddr from 'ipaddr.js';

/**
 * What is counted as one address: an IPv4 address as it is, an IPv6 address by its /64, which is what one customer gets; an
 * IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) is the IPv4 address.
 */
export function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) {
    return address;
  }
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) {
    return parsed.toIPv4Address().toString();
  }
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
