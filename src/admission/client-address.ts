import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import proxyAddr from 'proxy-addr';
import { CONFIG, type Config } from '../config/config.js';

/**
 * Whose address a request comes from. `X-Forwarded-For` is believed only as far as `TRUST_PROXY` says, read from the
 * right: what stands left of the last trusted proxy is the client's own claim.
 */
@Injectable()
export class ClientAddress {
  readonly #trust: ((address: string, hop: number) => boolean) | undefined;

  constructor(@Inject(CONFIG) { trustProxy }: Config) {
    if (typeof trustProxy === 'number') {
      this.#trust = (_address, hop) => hop < trustProxy;
    } else if (trustProxy !== false) {
      this.#trust = proxyAddr.compile([...trustProxy]);
    }
  }

  of(req: IncomingMessage): string {
    // The address is undefined after the socket has closed; such a request gets no response.
    const socketAddress = req.socket.remoteAddress ?? 'unknown';
    if (this.#trust === undefined) {
      return socketAddress;
    }
    const claimed = proxyAddr(req, this.#trust);
    return isIP(claimed) === 0 ? socketAddress : claimed;
  }
}
