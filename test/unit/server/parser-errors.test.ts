import type { Socket } from 'node:net';
import { respondToParserError } from '../../../src/server/parser-errors.js';
import { verdictOfUnused } from '../../../src/rate-limit/decision.js';
import type { AdmissionService } from '../../../src/admission/admission.service.js';
import { ANONYMOUS_QUOTAS } from '../../../src/plans/plans.js';
import { subjectOfAddress } from '../../../src/rate-limit/subject.js';

const NOW = Date.UTC(2026, 10, 21, 12, 0, 30);

/** A connection that notes what is written to it. */
class FakeSocket {
  written = '';
  destroyed = false;
  readonly remoteAddress = '203.0.113.1';
  bytesRead = 10;
  writable = true;

  end(text: string): void {
    this.written += text;
  }

  destroy(): void {
    this.destroyed = true;
  }
}

const admitted: string[] = [];
const admission = {
  admitAddress: (address: string) => {
    admitted.push(address);
    return {
      caller: {
        kind: 'anonymous',
        credentials: 'missing',
        subject: subjectOfAddress(address),
        quotas: ANONYMOUS_QUOTAS,
      },
      verdict: verdictOfUnused(ANONYMOUS_QUOTAS, NOW),
    };
  },
} as unknown as AdmissionService;

async function response(code: string | undefined, overrides: Partial<FakeSocket> = {}): Promise<FakeSocket> {
  const socket = Object.assign(new FakeSocket(), overrides);
  await respondToParserError(
    Object.assign(new Error('Parse Error: internals'), { code }),
    socket as unknown as Socket,
    admission,
  );
  return socket;
}

beforeEach(() => {
  jest.useFakeTimers();
  admitted.length = 0;
});
afterEach(() => {
  jest.useRealTimers();
});

describe('a request that the parser refuses', () => {
  test.each([
    ['HPE_INVALID_METHOD', 'HTTP/1.1 400 Bad Request', 'bad_request'],
    ['HPE_INVALID_CHUNK_SIZE', 'HTTP/1.1 400 Bad Request', 'bad_request'],
    [undefined, 'HTTP/1.1 400 Bad Request', 'bad_request'],
    ['HPE_HEADER_OVERFLOW', 'HTTP/1.1 431 Request Header Fields Too Large', 'request_header_fields_too_large'],
    ['ERR_HTTP_REQUEST_TIMEOUT', 'HTTP/1.1 408 Request Timeout', 'request_timeout'],
  ])('for %s is answered %s, %s', async (code, statusLine, bodyCode) => {
    const { written } = await response(code);
    const [head = '', body = ''] = written.split('\r\n\r\n');
    expect(head.split('\r\n')[0]).toBe(statusLine);
    expect(head).toMatch(/^Connection: close$/m);
    expect(head).toMatch(/^Content-Type: application\/json$/m);
    expect(head).toMatch(/^X-RateLimit-Limit: 60$/m);
    expect(head).toContain(`Content-Length: ${Buffer.byteLength(body)}`);
    expect(JSON.parse(body)).toEqual({
      code: bodyCode,
      message: expect.any(String) as string,
      status: Number(statusLine.slice(9, 12)),
    });
    expect(written).not.toContain('internals');
    expect(admitted).toEqual(['203.0.113.1']);
  });

  it('may read its answer for a second before the connection is cut', async () => {
    const socket = await response('HPE_INVALID_METHOD');
    jest.advanceTimersByTime(999);
    expect(socket.destroyed).toBe(false);
    jest.advanceTimersByTime(1);
    expect(socket.destroyed).toBe(true);
  });
});

describe('a connection that nobody can be answered on is cut, and counted against nobody:', () => {
  test.each<[string, string, Partial<FakeSocket>]>([
    ['one that was opened ahead of need and never used', 'ERR_HTTP_REQUEST_TIMEOUT', { bytesRead: 0 }],
    ['one that the client has reset', 'ECONNRESET', {}],
    ['one that cannot be written to', 'HPE_INVALID_METHOD', { writable: false }],
  ])('%s', async (_what, code, overrides) => {
    const socket = await response(code, overrides);
    expect(socket.destroyed).toBe(true);
    expect(socket.written).toBe('');
    expect(admitted).toEqual([]);
  });
});
