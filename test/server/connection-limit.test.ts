import { connect, type Socket } from 'node:net';
import { insertKey } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

const CONNECTIONS_MAX = 3;

let database: TestDatabase;
let service: ServiceProcess;
let metricsUrl: string;
let key: string;

beforeAll(async () => {
  database = await createTestDatabase();
  ({ key } = await insertKey(database.db));
  const port = await freePort();
  metricsUrl = `http://127.0.0.1:${port}/metrics`;
  service = await ServiceProcess.start({
    DATABASE_URL: database.url,
    MAX_CONNECTIONS: String(CONNECTIONS_MAX),
    METRICS_PORT: String(port),
  });
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

async function metric(name: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

async function open(): Promise<Socket> {
  const socket = connect(service.port, '127.0.0.1');
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

/** The first bytes of the response, or an empty string when the service closes the connection. */
function responseOn(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.once('data', (chunk) => {
      resolve(chunk.toString());
    });
    socket.once('close', () => {
      resolve('');
    });
    socket.write(`GET /v1/nothing HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  });
}

describe('MAX_CONNECTIONS', () => {
  it('closes further connections without a response, counts them, and serves existing and later ones', async () => {
    const sockets = [await open(), await open(), await open()];
    await waitFor(async () => (await metric('petstore_connections')) === CONNECTIONS_MAX, 'the connections are open');
    expect(await responseOn(await open())).toBe('');
    expect(await metric('petstore_connections_dropped_total')).toBe(1);
    for (const socket of sockets) {
      expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 404 /);
    }
    sockets[0]?.destroy();
    await waitFor(async () => (await metric('petstore_connections')) < CONNECTIONS_MAX, 'one of them is closed');
    const later = await open();
    expect(await responseOn(later)).toMatch(/^HTTP\/1\.1 404 /);
    expect(await metric('petstore_connections_dropped_total')).toBe(1);
    later.destroy();
    sockets.forEach((socket) => socket.destroy());
  });
});
