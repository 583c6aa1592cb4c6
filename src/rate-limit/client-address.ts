import { isIP } from 'node:net';
import type { Request } from 'express';
import ipaddr from 'ipaddr.js';

/** What a request without a valid key is counted against: the network of its client. */
export function clientNetworkOf({ ip = '', socket }: Request): string {
  const claimed = withoutPort(ip);
  // A proxy may forward any text. The address is undefined after the socket has closed; such a request gets no response.
  return networkOf(isIP(claimed) === 0 ? (socket.remoteAddress ?? '0.0.0.0') : claimed);
}

/** An entry of `X-Forwarded-For` as some proxies write it, with a port: `203.0.113.1:443` or `[2001:db8::1]:443`. */
function withoutPort(entry: string): string {
  const [, ipv6, ipv4] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(entry) ?? [];
  return ipv6 ?? ipv4 ?? entry;
}

/**
 * What is counted as one address: an IPv4 address as it is, an IPv6 address by its /64, which is what one customer gets; an
 * IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) is the IPv4 address. Without its zone, which a client may make up.
 */
export function networkOf(address: string): string {
  const parsed = ipaddr.process(address.replace(/%.*/, ''));
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.toString();
  }
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
