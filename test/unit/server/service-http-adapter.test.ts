import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expressMessages } from '../../../src/server/service-http-adapter.js';

it('expressMessages creates messages whose prototypes Express does not change', async () => {
  const app = express();
  const prototypes: unknown[] = [];
  const note: RequestListener = (req, res) => {
    prototypes.push(Object.getPrototypeOf(req), Object.getPrototypeOf(res));
  };
  app.get('/', (req, res) => {
    note(req, res);
    res.json({ host: req.hostname });
  });
  const server = createServer(expressMessages(app)).on('request', note).on('request', app);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  expect(await response.json()).toEqual({ host: '127.0.0.1' });
  server.close();
  expect(prototypes[2]).toBe(prototypes[0]);
  expect(prototypes[3]).toBe(prototypes[1]);
});
