import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expressMessages } from '../../../src/server/service-http-adapter.js';

describe('expressMessages', () => {
  let server: Server | undefined;

  afterEach(() => {
    server?.close();
  });

  it('creates messages whose prototypes Express does not change', async () => {
    const app = express();
    const prototypes: unknown[] = [];
    app.get('/', (req, res) => {
      prototypes.push(Object.getPrototypeOf(req), Object.getPrototypeOf(res));
      res.json({ host: req.hostname });
    });
    server = createServer(expressMessages(app), (req, res) => {
      prototypes.push(Object.getPrototypeOf(req), Object.getPrototypeOf(res));
      app(req, res);
    });
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));

    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);

    expect(await response.json()).toEqual({ host: '127.0.0.1' });
    const [request, answer, ...inExpress] = prototypes;
    expect(inExpress[0]).toBe(request);
    expect(inExpress[1]).toBe(answer);
  });
});
