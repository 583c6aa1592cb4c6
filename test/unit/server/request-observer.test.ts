import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { UsageRecorder } from '../../../src/api-keys/usage/usage-recorder.js';
import { type Admission, RequestContext } from '../../../src/http/request-context.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { UNUSED, verdictOf } from '../../../src/rate-limit/decision.js';
import { RequestObserver } from '../../../src/server/request-observer.js';

let admission: Admission | undefined;

describe('the request observer', () => {
  let server: Server;
  const lines: string[] = [];
  const observer = new RequestObserver(new Metrics(), {} as UsageRecorder, (line) => lines.push(line));

  /** Sends a request to a server that responds like this, and returns its log line. */
  async function lineOf(respond: (req: IncomingMessage, res: ServerResponse) => void): Promise<unknown> {
    lines.length = 0;
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const ended = new Promise<void>((resolve) => {
      server.once('request', (req: IncomingMessage, res: ServerResponse) => {
        const context = new RequestContext(req);
        context.admission = admission;
        res.once('close', () => {
          observer.ended(res, context);
          resolve();
        });
        respond(req, res);
      });
    });
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    client.on('error', () => undefined);
    client.pause();
    client.write('GET /v1/store/orders HTTP/1.1\r\nHost: a\r\nX-Request-Id: id-1\r\n\r\n');
    await ended;
    client.destroy();
    return JSON.parse(lines.join('')) as unknown;
  }

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  it('logs a response as aborted when it is destroyed before the client has received all of it', async () => {
    const line = await lineOf((_req, res) => {
      // More than the buffers of both ends of a connection hold.
      res.writeHead(200).end(Buffer.alloc(64 * 1024 * 1024));
      setImmediate(() => res.destroy());
    });
    expect(line).toMatchObject({ status: 200, aborted: true });
  });

  it.each([
    ['a request over its limit per minute', 'limited', { minuteUsed: 60, dayUsed: 999 }, 'per_minute'],
    ['a request over its limit per day', 'limited', { minuteUsed: 59, dayUsed: 1_000 }, 'per_day'],
    ['a request over both limits', 'limited', { minuteUsed: 60, dayUsed: 1_000 }, 'per_day'],
    ['a request during a ban', 'banned', { minuteUsed: 1, dayUsed: 1 }, 'banned'],
    ['an admitted request', 'admitted', { minuteUsed: 60, dayUsed: 1_000 }, undefined],
  ] as const)('logs the reason for the rejection of %s', async (_what, outcome, used, rejection) => {
    const quotas = { requestsPerMinute: 60, requestsPerDay: 1_000 };
    admission = { error: new Error(), verdict: verdictOf(outcome, { ...UNUSED, ...used }, quotas, 0) };
    const line = (await lineOf((_req, res) => res.writeHead(429).end())) as { rejection?: string };
    admission = undefined;
    expect(line.rejection).toBe(rejection);
  });
});
