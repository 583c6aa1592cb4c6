import { createServer } from 'node:http';
import { join } from 'node:path';
import { listen } from '../helpers/listen.js';
import { runProcess } from '../helpers/petstore.js';

const DRILL = join(__dirname, '..', '..', 'deploy', 'drill.mjs');

interface Report {
  readonly exitCode: number | null;
  readonly cancelled: number;
  readonly cancelsLost: number;
  readonly failures: number;
}

/** The deployment's response to the n-th cancel of an order; undefined closes the connection. */
type Cancel = (orderId: number, attempt: number) => { status: number; code?: string } | undefined;

const correct: Cancel = (_orderId, attempt) =>
  attempt === 1 ? { status: 204 } : { status: 409, code: 'order_already_cancelled' };

/** Runs the drill, for one second by default, against a stub of a deployment. */
async function drillAgainst(cancel: Cancel, seconds = '1'): Promise<Report> {
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
  try {
    return await runDrill(await listen(server), seconds);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function runDrill(port: number, seconds: string): Promise<Report> {
  const command = [process.execPath, DRILL, `http://127.0.0.1:${port}`, seconds];
  const { stdout, exitCode } = await runProcess(command, { PETSTORE_KEY: 'any' });
  return { ...(JSON.parse(stdout) as Report), exitCode };
}

describe('deploy/drill.mjs', () => {
  it('exits with 0 when no cancel is lost and no request fails', async () => {
    const report = await drillAgainst(correct);
    expect(report).toMatchObject({ exitCode: 0, cancelsLost: 0, failures: 0 });
    expect(report.cancelled).toBeGreaterThan(0);
  });

  it('exits with 1 and counts every cancel that returned 204 and was lost', async () => {
    const lost = new Set([1, 2, 6, 7, 8]);
    const report = await drillAgainst((id, attempt) => (lost.has(id) ? { status: 204 } : correct(id, attempt)));
    expect(report).toMatchObject({ exitCode: 1, cancelsLost: lost.size, failures: 0 });
  });

  test.each<[string, Cancel]>([
    ['closed connections', () => undefined],
    ['409 responses to a first cancel', () => ({ status: 409, code: 'order_already_cancelled' })],
  ])('exits with 1 and counts %s as failures', async (_how, failure) => {
    const bad = new Set([2, 7, 8]);
    const report = await drillAgainst((id, attempt) => (bad.has(id) ? failure(id, attempt) : correct(id, attempt)));
    expect(report).toMatchObject({ exitCode: 1, cancelsLost: 0, failures: bad.size });
  });

  it('exits with 1 when no order could be cancelled', async () => {
    expect(await drillAgainst(() => ({ status: 401, code: 'invalid_api_key' }))).toMatchObject({ exitCode: 1 });
  });

  it.each(['0', 'sixty'])('exits with 1 when it has cancelled nothing: %s seconds', async (seconds) => {
    expect(await drillAgainst(correct, seconds)).toMatchObject({ exitCode: 1, cancelled: 0, failures: 0 });
  });
});
