import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Express } from 'express';
import { loadConfig } from '../../../src/config/config.js';
import { ServiceHttpAdapter } from '../../../src/http/service-http-adapter.js';
import { listen } from '../../helpers/listen.js';

it('a connection whose client reads nothing of a response is closed after its timeout', async () => {
  const adapter = new ServiceHttpAdapter(loadConfig({}));
  adapter.initHttpServer();
  const server = adapter.getHttpServer() as Server;
  expect(server.timeout).toBe(300_000);
  server.timeout = 100;
  server.on('request', (_req, res) => res.end(Buffer.alloc(32_000_000)));
  const client = connect(await listen(server), '127.0.0.1').pause();
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const [connection] = (await once(server, 'connection')) as [Socket];
  await once(connection, 'close');
  client.destroy();
  server.close();
});

it('sends what its client has not read yet of a response that has ended, before it closes', async () => {
  const adapter = new ServiceHttpAdapter(loadConfig({}));
  adapter.initHttpServer();
  const server = adapter.getHttpServer() as Server;
  const BYTES = 32_000_000;
  adapter.getInstance<Express>().get('/', (_req, res) => {
    res.end(Buffer.alloc(BYTES));
  });
  const client = connect(await listen(server), '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(client, 'readable');
  const closed = adapter.close();
  let received = 0;
  client.on('data', (chunk: Buffer) => (received += chunk.length));
  await once(client, 'close');
  await closed;
  expect(received).toBeGreaterThan(BYTES);
});
