import { connect, type Socket } from 'node:net';
import { ServiceProcess, useServiceProcess } from '../helpers/service-process.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { exchange, requestText } from '../helpers/wire.js';

// In its own process, because an unhandled error would end it.
const context = useServiceProcess();

async function open(text: string): Promise<Socket> {
  const socket = connect(context.service.port, '127.0.0.1');
  socket.on('error', () => undefined);
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  socket.write(text);
  return socket;
}

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
      const socket = await open(text());
      if (round % 2 === 0) {
        await new Promise<void>((resolve) => {
          socket.once('data', () => resolve());
          socket.once('close', () => resolve());
          setTimeout(resolve, 50);
        });
      }
      socket.resetAndDestroy();
    }
    expect((await fetch(`${context.service.baseUrl}/health/ready`)).status).toBe(200);
    expect(context.service.output).not.toMatch(/"level":(?:50|60)|uncaught|unhandled/i);
  });
});

describe('a client that sends CONNECT and keeps the connection open', () => {
  it('gets 400, is disconnected, and does not delay a shutdown', async () => {
    // A stop that waits for its clients would last longer than the test may.
    const stopping = await ServiceProcess.start({ DATABASE_URL: context.database.url, SHUTDOWN_GRACE_SECONDS: '3600' });
    const text = 'CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n';
    const { responses, closed } = await exchange(stopping.port, text, { until: 'closed' });
    expectErrorResponse(responses[0], 400, 'bad_request');
    expect(closed).toBe(true);
    // This one neither reads nor closes.
    const socket = connect({ port: stopping.port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('error', () => undefined);
    socket.pause();
    socket.write(text);
    await exchange(stopping.port, requestText('GET', '/health/live', { headers: ['Connection: close'] }), {
      until: 'closed',
    });
    expect(await stopping.stop()).toBe(0);
    socket.destroy();
  });
});

describe('a request with more than 2,000 headers', () => {
  it('is rejected for a second Authorization header behind them', async () => {
    const many = Array.from({ length: 2_100 }, () => 'a:');
    const headers = [...many, `Authorization: Bearer ${context.key}`];
    const { responses } = await exchange(
      context.service.port,
      requestText('GET', '/v1/nowhere', { key: context.key, headers }),
      {
        until: 1,
      },
    );
    expectErrorResponse(responses[0], 401, 'invalid_api_key');
  });
});
