import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { loadConfig } from '../../../src/config/load-config.js';
import { ClientAddress } from '../../../src/admission/client-address.js';

const SOCKET_ADDRESS = '10.0.0.1';

function addressOf(trustProxy: string | undefined, forwardedFor: string | undefined, remoteAddress?: string): string {
  const config = loadConfig(trustProxy === undefined ? {} : { TRUST_PROXY: trustProxy });
  const req = {
    socket: { remoteAddress },
    headers: forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor },
  };
  return new ClientAddress(config).of(req as unknown as IncomingMessage);
}

describe('ClientAddress', () => {
  test.each([
    // TRUST_PROXY        X-Forwarded-For                              is
    [undefined, undefined, SOCKET_ADDRESS],
    [undefined, '203.0.113.1', SOCKET_ADDRESS],
    ['1', undefined, SOCKET_ADDRESS],
    ['1', '', SOCKET_ADDRESS],
    ['1', '203.0.113.1', '203.0.113.1'],
    ['1', '198.51.100.1, 203.0.113.1', '203.0.113.1'],
    ['1', '198.51.100.1,203.0.113.1', '203.0.113.1'],
    ['1', 'nonsense', SOCKET_ADDRESS],
    ['1', '203.0.113.1:443', '203.0.113.1'],
    ['1', '[2001:db8::1]:443', '2001:db8::1'],
    ['1', '[2001:db8::1]', '2001:db8::1'],
    ['1', '203.0.113.1:', SOCKET_ADDRESS],
    ['1', '203.0.113.256:443', SOCKET_ADDRESS],
    ['1', '[203.0.113.1', SOCKET_ADDRESS],
    ['1', '2001:db8::1', '2001:db8::1'],
    ['2', '198.51.100.1, 203.0.113.1', '198.51.100.1'],
    ['2', '192.0.2.1, 198.51.100.1, 203.0.113.1', '198.51.100.1'],
    ['2', '203.0.113.1', '203.0.113.1'],
    ['32', '192.0.2.1, 198.51.100.1', '192.0.2.1'],
    ['10.0.0.0/8', '203.0.113.1', '203.0.113.1'],
    ['10.0.0.0/8', '203.0.113.1, 10.9.9.9', '203.0.113.1'],
    ['10.0.0.0/8', '203.0.113.1:50000, 10.9.9.9:443', '203.0.113.1'],
    ['fd00::/8,10.0.0.0/8', '[2001:db8::1]:50000, [fd00::1]:443', '2001:db8::1'],
    ['10.0.0.0/8', '10.1.1.1, 10.9.9.9', '10.1.1.1'], // all trusted: the first one
    ['10.0.0.0/8', '203.0.113.1, 198.51.100.1', '198.51.100.1'],
    ['10.0.0.0/8', 'nonsense, 10.9.9.9', SOCKET_ADDRESS],
    ['10.0.0.1', '203.0.113.1', '203.0.113.1'],
    ['10.0.0.2', '203.0.113.1', SOCKET_ADDRESS],
    ['192.168.0.0/16,fd00::/8', '203.0.113.1', SOCKET_ADDRESS],
  ])('with TRUST_PROXY %p and X-Forwarded-For %p returns %s', (trustProxy, forwardedFor, expected) => {
    expect(addressOf(trustProxy, forwardedFor, SOCKET_ADDRESS)).toBe(expected);
  });

  it('returns unknown when the connection is closed already', () => {
    expect(addressOf(undefined, '203.0.113.1')).toBe('unknown');
  });

  it('matches trusted networks for an IPv4 address on a dual-stack socket', () => {
    expect(addressOf('10.0.0.0/8', '203.0.113.1', '::ffff:10.0.0.1')).toBe('203.0.113.1');
  });

  it('always returns an address, whatever the header contains', () => {
    const headers = fc.string({ unit: fc.constantFrom('1', '.', ':', ',', ' ', 'a', '203.0.113.1', '10.0.0.9', '\t') });
    fc.assert(
      fc.property(fc.constantFrom('1', '2', '10.0.0.0/8'), headers, (trustProxy, header) => {
        expect(addressOf(trustProxy, header, SOCKET_ADDRESS)).toMatch(/^[0-9a-f.:]+$/);
      }),
    );
  });
});
