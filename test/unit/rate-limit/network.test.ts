import { networkOf } from '../../../src/rate-limit/network.js';

describe('networkOf', () => {
  test.each([
    ['203.0.113.7', '203.0.113.7'],
    // IPv4 inside IPv6 (RFC 4291 section 2.5.5.2), as a dual-stack socket names its clients.
    ['::FFFF:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'], // the same in hexadecimal: 0xcb = 203, 0x71 = 113, 0x07 = 7
    // A customer usually gets a /64 and can choose the lower half of the address.
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    // An invalid address is counted as it is and never rejects a request.
    ['unknown', 'unknown'],
    ['', ''],
    ['2001:db8::g', '2001:db8::g'],
    ['::ffff:999.1.1.1', '::ffff:999.1.1.1'],
  ])('for %p returns %p', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
