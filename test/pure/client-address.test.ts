import express, { type Request } from 'express';
import fc from 'fast-check';
import { loadConfig } from '../../src/config/config.js';
import { clientNetworkOf, networkOf } from '../../src/rate-limit/client-address.js';

const SOCKET_ADDRESS = '10.0.0.1';

function networkBy(trustProxy: string, forwardedFor: string | undefined, remoteAddress = SOCKET_ADDRESS): string {
  const app = express();
  app.set('trust proxy', loadConfig({ TRUST_PROXY: trustProxy }).trustProxy);
  const req = Object.assign(Object.create(app.request) as Request, {
    socket: { remoteAddress },
    headers: forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor },
  });
  return clientNetworkOf(req);
}

// The tests of 429 cover what is counted together over HTTP.
describe('clientNetworkOf', () => {
  it.each([
    // TRUST_PROXY        X-Forwarded-For                              is
    ['1', undefined, SOCKET_ADDRESS],
    ['1', '203.0.113.1:443', '203.0.113.1'],
    ['2', '192.0.2.1, 198.51.100.1, 203.0.113.1', '198.51.100.1'],
    ['10.0.0.0/8', '10.1.1.1, 10.9.9.9', '10.1.1.1'], // all trusted: the first one
    ['10.0.0.2', '203.0.113.1', SOCKET_ADDRESS],
  ])('with TRUST_PROXY %p and X-Forwarded-For %p returns the network of %s', (trustProxy, forwardedFor, expected) => {
    expect(networkBy(trustProxy, forwardedFor)).toBe(networkOf(expected));
  });

  it('matches trusted networks for an IPv4 address on a dual-stack socket', () => {
    expect(networkBy('10.0.0.0/8', '203.0.113.1', '::ffff:10.0.0.1')).toBe('203.0.113.1');
  });

  it('always returns an address, whatever the header contains', () => {
    const headers = fc.string({ unit: fc.constantFrom('1', '.', ':', ',', ' ', 'a', '203.0.113.1', '10.0.0.9', '\t') });
    fc.assert(
      fc.property(fc.constantFrom('1', '2', '10.0.0.0/8'), headers, (trustProxy, header) => {
        expect(networkBy(trustProxy, header)).toMatch(/^[0-9a-f.:]+(?:\/64)?$/);
      }),
    );
  });
});

describe('networkOf', () => {
  it.each([
    ['203.0.113.7', '203.0.113.7'],
    // IPv4 inside IPv6 (RFC 4291 section 2.5.5.2), as a dual-stack socket names its clients.
    ['::FFFF:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'], // the same in hexadecimal: 0xcb = 203, 0x71 = 113, 0x07 = 7
    // A customer usually gets a /64 and can choose the lower half of the address.
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['fe80::1%eth0.100', 'fe80:0:0:0::/64'],
  ])('for %p returns %p', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
