import { subjectOfAddress, subjectOfKey } from '../../../src/rate-limit/subject.js';

describe('subjectOfAddress', () => {
  test.each([
    ['203.0.113.7', 'address:203.0.113.7'],
    ['127.0.0.1', 'address:127.0.0.1'],
    // IPv4 inside IPv6 (RFC 4291 section 2.5.5.2), as a dual-stack socket names its clients.
    ['::ffff:203.0.113.7', 'address:203.0.113.7'],
    ['::FFFF:203.0.113.7', 'address:203.0.113.7'],
    ['::ffff:cb00:7107', 'address:203.0.113.7'], // the same in hexadecimal: 0xcb = 203, 0x71 = 113, 0x07 = 7
    // A customer usually gets a /64 and can choose the lower half of the address.
    ['2001:db8:1:2:3:4:5:6', 'address:2001:db8:1:2::/64'],
    ['2001:db8:1:2::', 'address:2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002:ffff:ffff:ffff:ffff', 'address:2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', 'address:2001:db8:1:3::/64'],
    ['::1', 'address:0:0:0:0::/64'],
    ['fe80::1%eth0', 'address:fe80:0:0:0::/64'],
    // An invalid address is counted as it is and never rejects a request.
    ['unknown', 'address:unknown'],
    ['', 'address:'],
    ['not:an:address', 'address:not:an:address'],
    ['2001:db8::g', 'address:2001:db8::g'],
    ['::ffff:999.1.1.1', 'address:::ffff:999.1.1.1'],
  ])('for %p returns %p', (address, subject) => {
    expect(subjectOfAddress(address)).toBe(subject);
  });

  it('never returns the subject of a key', () => {
    const id = '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11';
    expect(subjectOfKey(id)).toBe(`key:${id}`);
    expect(subjectOfAddress(id)).not.toBe(subjectOfKey(id));
    expect(subjectOfAddress(`key:${id}`)).not.toBe(subjectOfKey(id));
  });
});
