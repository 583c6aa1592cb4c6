import { isIP } from 'node:net';
import type { Request } from 'express';
import ipaddr from 'ipaddr.js';
import proxyAddr from 'proxy-addr';
import type { Config } from '../config/config.js';

/** Proxies that are looked up: a client may send thousands of addresses that are trusted. */
const PROXIES_MAX = 32;

/**
 * The setting `trust proxy` of Express, which reads `X-Forwarded-For` from right to left through the proxies in `TRUST_PROXY`; the
 * entries before the client's address were sent by the client and are ignored.
 */
export function trustedProxies(trustProxy: Config['trustProxy']): number | ((address: string, hop: number) => boolean) {
  if (typeof trustProxy !== 'object') {
    return trustProxy ?? 0;
  }
  const isTrusted = proxyAddr.compile(trustProxy);
  return (address, hop) => hop < PROXIES_MAX && isTrusted(withoutPort(address), hop);
}

/** What a request without a valid key is counted against: the network of its client. */
export function clientNetworkOf({ ip, socket }: Request): string {
  const claimed = withoutPort(ip ?? '');
  // The address is undefined after the socket has closed; such a request gets no response.
  return networkOf(isIP(claimed) === 0 ? (socket.remoteAddress ?? 'unknown') : claimed);
}

/** An entry as some proxies write it, with a port: `203.0.113.1:443` or `[2001:db8::1]:443`. */
function withoutPort(entry: string): string {
  const address = entry.trim();
  const [, ipv6, ipv4] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(address) ?? [];
  return ipv6 ?? ipv4 ?? address;
}

/**
 * What is counted as one address: an IPv4 address as it is, an IPv6 address by its /64, which is what one customer gets; an
 * IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) is the IPv4 address. Without its zone, which a client may make up.
 */
export function networkOf(addressWithZone: string): string {
  const [address = ''] = addressWithZone.split('%');
  if (!ipaddr.IPv6.isValid(address)) {
    return address;
  }
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.toString();
  }
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
