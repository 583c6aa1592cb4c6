import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { AdmissionService } from '../../../src/admission/admission.service.js';
import { MISSING_API_KEY } from '../../../src/admission/rejection.js';
import type { RequestContext } from '../../../src/http/request-context.js';
import { ANONYMOUS_QUOTAS } from '../../../src/plans/plans.js';
import { verdictOfUnused } from '../../../src/rate-limit/decision.js';
import { rateLimitHeaders } from '../../../src/rate-limit/headers.js';
import type { Connections } from '../../../src/server/connections.js';
import { AllExceptionsFilter } from '../../../src/server/exception.filter.js';
import { ParserErrors } from '../../../src/server/parser-errors.js';
import type { RequestObserver } from '../../../src/server/request-observer.js';

const NOW = Date.UTC(2026, 10, 21, 12, 0, 30);

/** A connection that records what is written to it. */
class FakeSocket extends Duplex {
  written = '';
  remoteAddress: string | undefined = '203.0.113.1';
  bytesRead = 10;

  override _read(): void {
    // Its client sends nothing more.
  }

  override _write(text: Buffer, _encoding: string, done: () => void): void {
    this.written += text.toString();
    done();
  }

  /** That of a real one waits for its client, see `Connections`. */
  destroySoon(): void {
    this.end(() => this.destroy());
  }
}

const admitted: (string | undefined)[] = [];
const admission = {
  admit: ({ socket }: IncomingMessage, context: RequestContext) => {
    admitted.push(socket.remoteAddress);
    context.headers.push(...rateLimitHeaders(verdictOfUnused(ANONYMOUS_QUOTAS, NOW)));
    return MISSING_API_KEY;
  },
} as unknown as AdmissionService;

const recorded: unknown[] = [];
const observer = {
  ended: ({ statusCode, writableFinished }: ServerResponse) => recorded.push({ statusCode, writableFinished }),
} as unknown as RequestObserver;

/** A connection with these properties and no pending response. */
async function respond(
  code: string | undefined,
  overrides: Partial<FakeSocket> = {},
  { ignored = false, receivingBody = false } = {},
): Promise<FakeSocket> {
  const socket = Object.assign(new FakeSocket(), overrides);
  const connections = {
    ignores: () => ignored,
    stopReceiving: () => Promise.resolve(receivingBody),
  } as unknown as Connections;
  const error = Object.assign(new Error('Parse Error: internals'), { code });
  const errors = new AllExceptionsFilter();
  await new ParserErrors(connections, admission, observer, errors).respond(error, socket as unknown as Socket);
  await new Promise(setImmediate);
  return socket;
}

beforeEach(() => {
  admitted.length = 0;
  recorded.length = 0;
});

describe('a request that the parser rejects', () => {
  // `test/server/malformed-requests.test.ts` has the others.
  it('because it took too long gets 408, with rate-limit headers and without details', async () => {
    const { written, destroyed } = await respond('ERR_HTTP_REQUEST_TIMEOUT');
    const [head = '', body = ''] = written.split('\r\n\r\n');
    expect(head).toMatch(/^HTTP\/1\.1 408 Request Timeout$/m);
    expect(head).toMatch(/^X-RateLimit-Limit: 60$/m);
    expect(JSON.parse(body)).toMatchObject({ code: 'request_timeout', status: 408 });
    expect(written).not.toContain('internals');
    expect([admitted, recorded]).toEqual([['203.0.113.1'], [{ statusCode: 408, writableFinished: true }]]);
    expect(destroyed).toBe(true);
  });
});

describe('a parser error gets no response, is not counted and not recorded', () => {
  test.each<[string, string, Partial<FakeSocket>, { ignored?: boolean; receivingBody?: boolean }]>([
    ['when the connection has sent nothing', 'ERR_HTTP_REQUEST_TIMEOUT', { bytesRead: 0 }, {}],
    ['when the client has reset the connection', 'ECONNRESET', {}, {}],
    ['when the connection cannot be written to', 'HPE_INVALID_METHOD', { writable: false }, {}],
    ['when the address is unknown because of a reset', 'HPE_INVALID_METHOD', { remoteAddress: undefined }, {}],
    ['after a request with Connection: close', 'HPE_CLOSED_CONNECTION', {}, {}],
    ['in the body of a request that has its response', 'HPE_INVALID_CHUNK_SIZE', {}, { receivingBody: true }],
    ['when the body of a request with a response times out', 'ERR_HTTP_REQUEST_TIMEOUT', {}, { receivingBody: true }],
    ['when the connection is closing or not read', 'ERR_HTTP_REQUEST_TIMEOUT', {}, { ignored: true }],
  ])('%s', async (_condition, code, overrides, connection) => {
    const socket = await respond(code, overrides, connection);
    expect(socket.destroyed).toBe(connection.ignored !== true);
    expect(socket.written).toBe('');
    expect([admitted, recorded]).toEqual([[], []]);
  });
});
