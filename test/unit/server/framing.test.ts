import type { IncomingMessage } from 'node:http';
import { framingError } from '../../../src/server/framing.js';

interface Framing {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly minor?: 0 | 1;
}

/** What is wrong with a request, put together as Node hands it on. */
function faultOf({ headers, minor = 1 }: Framing): string | undefined {
  const coding = headers.filter(([name]) => name.toLowerCase() === 'transfer-encoding').map(([, value]) => value);
  const req = {
    rawHeaders: headers.flat(),
    headers: coding.length === 0 ? {} : { 'transfer-encoding': coding.join(', ') },
    httpVersionMinor: minor,
  };
  const fault = framingError(req as unknown as IncomingMessage);
  return fault && `${fault.code}: ${fault.message}`;
}

const HOST_FAULT = 'bad_request: There must be one Host header with a host.';
const CODING_FAULT = 'bad_request: The only transfer coding that is understood is chunked.';

describe('the host of a request', () => {
  it.each([
    'localhost',
    'api.example.com',
    'api.example.com:8443',
    'a:',
    '192.0.2.1:80',
    '[2001:db8::1]',
    '[::ffff:192.0.2.1]:3000',
    // Every character of reg-name (RFC 3986 section 3.2.2), and no name at all.
    "aZ09-._~!$&'()*+,;=%20",
    '',
    ':3000',
  ])('may be %j', (host) => {
    expect(faultOf({ headers: [['Host', host]] })).toBeUndefined();
  });

  it.each([
    'a b',
    'a/b',
    'user@a',
    'a:b',
    'a:1:2',
    'a:80/',
    'a, b',
    'a\tb',
    'ä',
    '[2001:db8::1',
    '2001:db8::1',
    '[]',
    '[g::1]',
    '[::1]a',
    'a[::1]',
    '"a"',
    'a?b',
    'a#b',
  ])('may not be %j', (host) => {
    // Commas are characters of a name, as odd as that is; blanks are not.
    expect(faultOf({ headers: [['Host', host]] })).toBe(HOST_FAULT);
  });

  it('is said in a header of that name, whatever its case and place', () => {
    for (const name of ['host', 'Host', 'HOST', 'hOsT']) {
      const headers = [
        ['X-A', 'b'],
        [name, 'localhost'],
        ['Accept', '*/*'],
      ] as const;
      expect(faultOf({ headers })).toBeUndefined();
    }
  });

  it('is not said by headers of similar names or values', () => {
    expect(faultOf({ headers: [] })).toBe(HOST_FAULT);
    const headers = [
      ['X-Host', 'a'],
      ['Hosts', 'a'],
      ['Most', 'a'],
      ['X-A', 'host'],
    ] as const;
    expect(faultOf({ headers })).toBe(HOST_FAULT);
  });

  it('must be said in HTTP/1.1 and need not be in HTTP/1.0', () => {
    expect(faultOf({ headers: [['Accept', '*/*']], minor: 1 })).toBe(HOST_FAULT);
    expect(faultOf({ headers: [['Accept', '*/*']], minor: 0 })).toBeUndefined();
  });

  it.each([0, 1] as const)('is said once and well, also in HTTP/1.%i', (minor) => {
    const [one, same, other] = [['Host', 'a'] as const, ['host', 'a'] as const, ['HOST', 'b'] as const];
    expect(faultOf({ headers: [one], minor })).toBeUndefined();
    expect(faultOf({ headers: [one, same], minor })).toBe(HOST_FAULT);
    expect(faultOf({ headers: [one, ['X-A', 'b'], other], minor })).toBe(HOST_FAULT);
    expect(faultOf({ headers: [['Host', 'a b']], minor })).toBe(HOST_FAULT);
  });
});

describe('the transfer coding of a request', () => {
  const withCoding = (coding: string, minor: 0 | 1 = 1): string | undefined =>
    faultOf({
      headers: [
        ['Host', 'a'],
        ['Transfer-Encoding', coding],
      ],
      minor,
    });

  it.each(['chunked', 'Chunked', 'CHUNKED'])('may be %j', (coding) => {
    expect(withCoding(coding)).toBeUndefined();
  });

  it.each(['gzip', 'gzip, chunked', 'chunked, chunked', 'identity', 'chunked;q=1', '"chunked"', 'xchunked', ''])(
    'may not be %j',
    (coding) => {
      expect(withCoding(coding)).toBe(CODING_FAULT);
    },
  );

  it('may not be chunked in HTTP/1.0, which knows none', () => {
    expect(withCoding('chunked', 0)).toBe(CODING_FAULT);
  });
});
