import type { IncomingMessage } from 'node:http';
import { framingError } from '../../../src/http/framing.js';

interface Framing {
  /** As `Name: value`. */
  readonly headers: readonly string[];
  readonly version?: string;
}

/** The framing error of a request with these raw headers. */
function errorOf({ headers, version = '1.1' }: Framing): string | undefined {
  const joined: Record<string, string> = {};
  for (const header of headers) {
    const [name = '', value = ''] = header.split(/(?<=^[\w-]+): /);
    const before = joined[name.toLowerCase()];
    joined[name.toLowerCase()] = before === undefined ? value : `${before}, ${value}`;
  }
  const rawHeaders = headers.flatMap((header) => header.split(/(?<=^[\w-]+): /));
  const fault = framingError({ headers: joined, rawHeaders, httpVersion: version } as unknown as IncomingMessage);
  return fault && `${fault.code}: ${fault.message}`;
}

const HOST_ERROR = 'bad_request: The request must have exactly one valid Host header.';
const CODING_ERROR = 'bad_request: Transfer-Encoding must be chunked, and requires HTTP/1.1.';

describe('framingError for the Host header', () => {
  it.each([
    'api.example.com:8443',
    'a:',
    '192.0.2.1:80',
    '[2001:db8::1]',
    '[::ffff:192.0.2.1]:3000',
    // Every character of reg-name (RFC 3986 section 3.2.2), and an empty name.
    "aZ09-._~!$&'()*+,;=%20",
    '',
    ':3000',
  ])('accepts %j', (host) => {
    expect(errorOf({ headers: [`Host: ${host}`] })).toBeUndefined();
  });

  it('rejects every other character of Latin-1', () => {
    const characters = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code));
    const accepted = characters.filter((each) => errorOf({ headers: [`Host: a${each}b`] }) === undefined);
    expect(accepted.filter((each) => !/[A-Za-z0-9\-._~!$&'()*+,;=%]/.test(each))).toEqual([]);
  });

  it.each(['a:b', 'a:1:2', 'a:80/', '[2001:db8::1', '2001:db8::1', '[]', '[g::1]', '[::1]a', 'a[::1]'])(
    'rejects %j',
    (host) => {
      expect(errorOf({ headers: [`Host: ${host}`] })).toBe(HOST_ERROR);
    },
  );

  it('requires Host in HTTP/1.1 and not in HTTP/1.0', () => {
    expect(errorOf({ headers: ['Accept: */*'], version: '1.1' })).toBe(HOST_ERROR);
    expect(errorOf({ headers: ['Accept: */*'], version: '1.0' })).toBeUndefined();
  });

  it.each(['1.0', '1.1'])('rejects repeated and invalid Host headers in HTTP/%s', (version) => {
    expect(errorOf({ headers: ['Host: a'], version })).toBeUndefined();
    expect(errorOf({ headers: ['Host: a', 'host: a'], version })).toBe(HOST_ERROR);
    expect(errorOf({ headers: ['Host: a', 'X-A: b', 'HOST: b'], version })).toBe(HOST_ERROR);
    expect(errorOf({ headers: ['Host: a b'], version })).toBe(HOST_ERROR);
  });
});

describe('framingError for Transfer-Encoding', () => {
  const withCoding = (coding: string, version = '1.1'): string | undefined =>
    errorOf({ headers: ['Host: a', `Transfer-Encoding: ${coding}`], version });

  it.each(['chunked', 'Chunked', 'CHUNKED'])('accepts %j', (coding) => {
    expect(withCoding(coding)).toBeUndefined();
  });

  it.each(['gzip', 'gzip, chunked', 'chunked, chunked', 'identity', 'chunked;q=1', '"chunked"', 'xchunked', ''])(
    'rejects %j',
    (coding) => {
      expect(withCoding(coding)).toBe(CODING_ERROR);
    },
  );

  it('rejects chunked in HTTP/1.0', () => {
    expect(withCoding('chunked', '1.0')).toBe(CODING_ERROR);
  });
});

it.each(['0.9', '2.0'])('framingError rejects HTTP/%s, which the parser accepts', (version) => {
  expect(errorOf({ headers: ['Host: a'], version })).toBe('bad_request: The version must be HTTP/1.1 or HTTP/1.0.');
});
