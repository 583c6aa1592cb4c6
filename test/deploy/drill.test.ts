import { spawn } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

const DRILL = join(__dirname, '..', '..', 'deploy', 'drill.mjs');

interface Report {
  readonly exitCode: number | null;
  readonly cancelled: number;
  readonly cancelsLost: number;
  readonly failures: number;
}

/** What a deployment answers to the n-th cancel of an order; undefined: it breaks off. */
type Cancel = (orderId: number, attempt: number) => { status: number; code?: string } | undefined;

const faultless: Cancel = (_orderId, attempt) =>
  attempt === 1 ? { status: 204 } : { status: 409, code: 'order_already_cancelled' };

/** Runs the drill for a second against a deployment that cancels like this. */
async function drillAgainst(cancel: Cancel): Promise<Report> {
  const attempts = new Map<number, number>();
  const server = createServer((req, res) => {
    const orderId = Number(req.url?.split('/').at(-1));
    const attempt = (attempts.get(orderId) ?? 0) + 1;
    attempts.set(orderId, attempt);
    const response = cancel(orderId, attempt);
    if (response === undefined) {
      req.socket.destroy();
    } else {
      res
        .writeHead(response.status)
        .end(response.code === undefined ? undefined : JSON.stringify({ code: response.code }));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await runDrill(server);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function runDrill(server: Server): Promise<Report> {
  const { port } = server.address() as AddressInfo;
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [DRILL, `http://127.0.0.1:${port}`, '1'], {
      env: { PATH: process.env.PATH, PETSTORE_KEY: 'any' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.on('error', reject);
    child.on('close', (exitCode) => {
      resolve({ ...(JSON.parse(output) as Report), exitCode });
    });
  });
}

describe('the drill', () => {
  it('is passed by a deployment that loses nothing', async () => {
    const report = await drillAgainst(faultless);
    expect(report).toMatchObject({ exitCode: 0, cancelsLost: 0, failures: 0 });
    expect(report.cancelled).toBeGreaterThan(50);
  });

  it('counts every cancel that was answered 204 and is not there any more', async () => {
    const lost = new Set([1, 2, 6, 7, 8]);
    const report = await drillAgainst((id, attempt) => (lost.has(id) ? { status: 204 } : faultless(id, attempt)));
    expect(report).toMatchObject({ exitCode: 1, cancelsLost: lost.size, failures: 0 });
  });

  test.each<[string, Cancel]>([
    ['breaks off', () => undefined],
    ['is unavailable', () => ({ status: 503, code: 'service_unavailable' })],
    ['is sent a request twice on the way', () => ({ status: 409, code: 'order_already_cancelled' })],
  ])('counts an answer of a deployment that %s once in a while', async (_how, failure) => {
    const bad = new Set([2, 7, 8]);
    const report = await drillAgainst((id, attempt) => (bad.has(id) ? failure(id, attempt) : faultless(id, attempt)));
    expect(report).toMatchObject({ exitCode: 1, cancelsLost: 0, failures: bad.size });
  });

  it('is not passed by a deployment where nothing could be cancelled', async () => {
    expect(await drillAgainst(() => ({ status: 401, code: 'invalid_api_key' }))).toMatchObject({ exitCode: 1 });
  });
});
