import type { SeededRandom } from '../helpers/seeded-random.js';

/** Bytes that have caused bugs in HTTP software: separators, control characters, unusual line ends. */
const FRAGMENTS = [
  ...Array.from('\r\n\0\t :,;\\#?\x7f\x85\xa0\xff\x0b"\'{<'),
  ...['\r\n', '\r\n\r\n', '%', '%00', '%0d%0a', '%ff', '%2e%2e%2f', '../', '//', '${7*7}', '__proto__'],
];

const TARGETS = [
  '/v1/store/orders',
  '/v1/store/orders/',
  '/v1/store/orders/1',
  '/v1/store/orders/-9223372036854775809',
  '/v1/store/orders/00',
  '/v1/store/orders/1e3',
  '/v1/store/orders/%31',
  '/v1/store/orders/1%2f..',
  '/v1//store/orders',
  '/v1/./store/../store/orders',
  '/v1/store/orders?limit=1&__proto__[x]=1',
  '/v1/constructor/prototype',
  '/v1',
  '/V1/store/orders',
  '/',
  '*',
  'http://localhost/v1/store/orders/1',
  '/health/live',
  '/docs/openapi.json',
  '/docs/../v1/store/orders',
];

const METHODS = ['GET', 'DELETE', 'POST', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'get', 'GE', ''];

/** KEY is replaced by a valid key. */
const HEADERS = [
  'Authorization: Bearer KEY',
  'Authorization: bearer  KEY',
  'Authorization: Bearer KEY, Bearer KEY',
  'Authorization: Bearer',
  'Authorization: Basic dXNlcjpwYXNz',
  'Authorization: Bearer pst_0000000000000000000000000000000000000000000',
  `Authorization: Bearer ${'a'.repeat(5_000)}`,
  'authorization:KEY',
  'If-None-Match: *',
  'If-None-Match: W/"',
  `If-None-Match: ${'"a",'.repeat(500)}`,
  'Accept-Encoding: gzip;q=0, identity;q=0, *;q=0',
  `Accept-Encoding: ${'gzip,'.repeat(500)}`,
  'Accept-Encoding: \xff',
  'Range: bytes=0-0,-1',
  'Expect: 100-continue',
  'Connection: close',
  'Connection: upgrade, keep-alive, \x01',
  'Upgrade: h2c',
  'Content-Length: 0',
  'Content-Length: 5',
  'Content-Length: 99999999999999999999',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: chunked, identity',
  'Trailer: Authorization',
  'X-Forwarded-For: 1.2.3.4, unknown, ::ffff:1.2.3.4, 999.1.1.1',
  'Forwarded: for=1.2.3.4',
  'X-Request-Id: a\tb',
  'X-HTTP-Method-Override: DELETE',
  'Host: elsewhere:99999',
  'Origin: null',
  'Access-Control-Request-Method: DELETE',
  'Cookie: a=b',
  `X-${'a'.repeat(3_000)}: b`,
];

const BODIES = [
  '',
  '',
  '',
  '',
  'hello',
  '0\r\n\r\n',
  '5\r\nhello\r\n0\r\n\r\n',
  'ffffffffffffffffff\r\n',
  '5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n',
];

/** A syntactically valid request with random, partly invalid, contents. */
function makeRequest(random: SeededRandom, key: string): string {
  const lines = [
    `${random.chance(0.9) ? random.pick(METHODS.slice(0, 3)) : random.pick(METHODS)} ${random.pick(TARGETS)} HTTP/1.1`,
  ];
  if (random.chance(0.95)) {
    lines.push('Host: localhost');
  }
  for (let headers = random.below(4); headers > 0; headers--) {
    lines.push(random.chance(0.3) ? 'Authorization: Bearer KEY' : random.pick(HEADERS));
  }
  return `${lines.join('\r\n')}\r\n\r\n${random.pick(BODIES)}`.replaceAll('KEY', key);
}

/** Random changes to a request. */
const MUTATIONS: readonly ((bytes: Buffer, at: number, random: SeededRandom) => Buffer)[] = [
  (bytes, at, random) => spliced(bytes, at, 0, Buffer.from(random.pick(FRAGMENTS), 'latin1')),
  (bytes, at, random) => spliced(bytes, at, 1, Buffer.from([random.below(256)])),
  (bytes, at, random) => spliced(bytes, at, 1 + random.below(8), Buffer.alloc(0)),
  (bytes, at, random) => spliced(bytes, at, 0, bytes.subarray(at, at + 1 + random.below(40))),
  (bytes, at) => bytes.subarray(0, at),
  (bytes, at, random) => spliced(bytes, at, 0, Buffer.alloc(random.below(3_000), bytes[at] ?? 0x61)),
];

/** One to three requests, changed in up to four places. */
export function makeAttack(random: SeededRandom, key: string): Buffer {
  const requests = Array.from({ length: 1 + random.below(3) }, () => makeRequest(random, key));
  let bytes = Buffer.from(requests.join(''), 'latin1');
  for (let mutations = random.below(5); mutations > 0; mutations--) {
    bytes = Buffer.from(random.pick(MUTATIONS)(bytes, random.below(bytes.length + 1), random));
  }
  return bytes;
}

function spliced(bytes: Buffer, at: number, removed: number, inserted: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(at + removed)]);
}
