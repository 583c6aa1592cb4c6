import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import proxyAddr from 'proxy-addr';
import { CONFIG, type Config } from '../config/config.js';

/**
 * Determines the client address of a request. `X-Forwarded-For` is read from right to left through the proxies in
 * `TRUST_PROXY`; the entries before the client's address were sent by the client and are ignored.
 */
@Injectable()
export class ClientAddress {
  readonly #trust: ((address: string, hop: number) => boolean) | undefined;

  constructor(@Inject(CONFIG) { trustProxy }: Config) {
    if (typeof trustProxy === 'number') {
      this.#trust = (_address, hop) => hop < trustProxy;
    } else if (trustProxy !== false) {
      const isTrusted = proxyAddr.compile([...trustProxy]);
      this.#trust = (address, hop) => isTrusted(withoutPort(address), hop);
    }
  }

  of(req: IncomingMessage): string {
    // The address is undefined after the socket has closed; such a request gets no response.
    const socketAddress = req.socket.remoteAddress ?? 'unknown';
    if (this.#trust === undefined) {
      return socketAddress;
    }
    const claimed = withoutPort(proxyAddr(req, this.#trust));
    return isIP(claimed) === 0 ? socketAddress : claimed;
  }
}

/** An entry as some proxies write it, with a port: `203.0.113.1:443` or `[2001:db8::1]:443`. */
function withoutPort(entry: string): string {
  const [, ipv6, ipv4] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(entry) ?? [];
  return ipv6 ?? ipv4 ?? entry;
}
