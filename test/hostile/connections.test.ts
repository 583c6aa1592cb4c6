import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { RawClient } from '../helpers/raw-client.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { requestText, responseTo, type WireResponse } from '../helpers/wire.js';

// In its own process, because an unhandled error would end it.
const context = useServiceProcess();

const LIST = (): string => requestText('GET', '/v1/store/orders', { key: context.key });

describe('a client that resets its connection', () => {
  it.each([
    ['after CONNECT', () => 'CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    [
      'after a request for a protocol upgrade',
      () => requestText('GET', '/v1/nowhere', { headers: ['Connection: Upgrade', 'Upgrade: h2c'] }),
    ],
    ['after malformed input', () => 'hello\r\n\r\n'],
    ['after half a request', () => 'GET /v1/store/orders HTTP/1.1\r\nHost: loc'],
    ['after a cancel', () => requestText('DELETE', '/v1/store/orders/1', { key: context.key })],
    ['after many pipelined requests', () => LIST().repeat(50)],
    [
      'in the middle of a body',
      () => requestText('POST', '/v1/store/orders', { headers: ['Content-Length: 99'], body: 'a' }),
    ],
  ])('%s leaves the service ready and causes no error in the log', async (_what, text) => {
    for (let round = 0; round < 20; round++) {
      const { socket } = await RawClient.open(context.service.port, text());
      if (round % 2 === 0) {
        // As much later as a request to another connection takes: some of these get no response.
        await fetch(`${context.service.baseUrl}/health/live`);
      }
      socket.resetAndDestroy();
    }
    expect((await fetch(`${context.service.baseUrl}/health/ready`)).status).toBe(200);
    expect(context.service.output).not.toMatch(/"level":(?:50|60)|uncaught|unhandled/i);
  });
});

describe('a request with more headers than are read', () => {
  it('is rejected, and never with the first of two Authorization headers', async () => {
    /** With Host and the key. */
    const respond = (count: number, ...more: string[]): Promise<WireResponse> => {
      const headers = [...Array<string>(count - 2).fill('a:'), ...more];
      return responseTo(context.service.port, 'GET', '/v1/nowhere', { key: context.key, headers });
    };
    expectErrorResponse(await respond(100), 404, 'route_not_found');
    expectErrorResponse(await respond(101), 431, 'request_header_fields_too_large');
    const other = `Authorization: Bearer ${context.key}`;
    expectErrorResponse(await respond(99, other), 401, 'invalid_api_key');
    expectErrorResponse(await respond(2_100, other), 431, 'request_header_fields_too_large');
  });
});
