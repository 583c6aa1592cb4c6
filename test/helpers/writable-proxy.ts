import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { freePort } from './free-port.js';
import { waitFor } from './wait-for.js';

/** Fails on a standby. */
const IS_PRIMARY = 'SELECT 1 / (NOT pg_is_in_recovery())::int';

/** HAProxy that leads to the one of several servers that accepts writes, by HTTP checks like those of Patroni. */
export class WritableProxy {
  private constructor(
    readonly url: string,
    private readonly child: ChildProcess,
    private readonly checks: readonly Server[],
    private readonly folder: string,
  ) {}

  static async start(databaseUrls: readonly string[]): Promise<WritableProxy> {
    const port = await freePort();
    const checks = await Promise.all(databaseUrls.map(serveCheck));
    const servers = databaseUrls.map((url, index) => {
      const check = (checks[index]!.address() as AddressInfo).port;
      return `  server postgres${index} ${new URL(url).host} check port ${check}`;
    });
    const folder = mkdtempSync(join(tmpdir(), 'petstore-haproxy-'));
    const file = join(folder, 'haproxy.cfg');
    writeFileSync(file, configuration(port, servers));
    const child = spawn('haproxy', ['-f', file, '-db'], { stdio: 'ignore' });
    const url = new URL(databaseUrls[0]!);
    url.port = String(port);
    // HAProxy takes every server for healthy until it has checked it, and takes turns between them.
    let successes = 0;
    await waitFor(async () => {
      successes = (await responds(url.href, IS_PRIMARY)) ? successes + 1 : 0;
      return successes === 2 * databaseUrls.length;
    }, 'HAProxy leads to the primary only');
    return new WritableProxy(url.href, child, checks, folder);
  }

  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await exited;
    for (const check of this.checks) {
      check.closeAllConnections();
      check.close();
    }
    rmSync(this.folder, { recursive: true });
  }
}

/** As docs/operations.md describes it. */
function configuration(port: number, servers: readonly string[]): string {
  return `defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h

listen postgres
  bind 127.0.0.1:${port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${servers.join('\n')}
`;
}

/** Responds with 200 while a server accepts writes. */
async function serveCheck(databaseUrl: string): Promise<Server> {
  const server = createServer((_request, response) => {
    void responds(databaseUrl, IS_PRIMARY).then((primary) => response.writeHead(primary ? 200 : 503).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

async function responds(url: string, sql: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000, query_timeout: 1_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query(sql);
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
