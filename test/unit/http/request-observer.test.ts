import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import type { Request, Response } from 'express';
import { RequestObserver } from '../../../src/http/request-observer.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { listen } from '../../helpers/listen.js';

describe('the request observer', () => {
  let server: Server;
  const lines: { durationMs: number }[] = [];
  const metrics = new Metrics();
  const observer = new RequestObserver(metrics, (line) => lines.push(line as { durationMs: number }));

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  it('measures a response in seconds, and logs it as aborted when it is destroyed before the client has received all of it', async () => {
    server = createServer((req, res) => {
      Object.assign(req, { originalUrl: req.url });
      observer.observe(req as Request, res as Response, () => {
        // More than the buffers of both ends of a connection hold.
        res.writeHead(200).end(Buffer.alloc(64 * 1024 * 1024));
        setImmediate(() => res.destroy());
      });
    });
    const port = await listen(server);
    const ended = new Promise<ServerResponse>((resolve) => {
      server.on('request', (_req, res: ServerResponse) => res.once('close', resolve));
    });
    const client = connect(port, '127.0.0.1');
    client.on('error', () => undefined);
    client.pause();
    client.write('GET /v1/store/orders HTTP/1.1\r\nHost: a\r\nX-Request-Id: id-1\r\n\r\n');
    await ended;
    client.destroy();
    expect(lines).toEqual([expect.objectContaining({ requestId: 'id-1', status: 200, aborted: true })]);
    const sum = /_seconds_sum\{.*error_type="aborted"\} (\S+)/.exec(await metrics.registry.metrics())?.[1];
    expect(Number(sum)).toBeCloseTo((lines[0]?.durationMs ?? NaN) / 1_000, 5);
  });
});
