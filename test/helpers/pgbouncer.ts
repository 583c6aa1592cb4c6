import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { freePort } from './free-port.js';
import { waitFor } from './wait-for.js';

/** PgBouncer in front of a server, with Debian's configuration and the given settings. */
export class PgBouncer {
  private constructor(
    private readonly child: ChildProcess,
    private readonly folder: string,
    private readonly port: number,
  ) {}

  /** @param databaseUrl a database of the server, with the password of its user */
  static async start(databaseUrl: string, settings: Readonly<Record<string, string>> = {}): Promise<PgBouncer> {
    const { hostname, port: serverPort, username, password } = new URL(databaseUrl);
    const folder = mkdtempSync(join(tmpdir(), 'petstore-pgbouncer-'));
    // PgBouncer does not run as root.
    chmodSync(folder, 0o755);
    const port = await freePort();
    const users = join(folder, 'userlist.txt');
    writeFileSync(users, `"${username}" "${password}"\n`);
    const file = join(folder, 'pgbouncer.ini');
    const debian = readFileSync('/etc/pgbouncer/pgbouncer.ini', 'utf8').replace(/^(?:logfile|pidfile) = .*$/gm, '');
    const ours = { listen_addr: '127.0.0.1', listen_port: String(port), unix_socket_dir: '', auth_file: users };
    const lines = Object.entries({ ...ours, ...settings }).map(([name, value]) => `${name} = ${value}`);
    const databases = `[databases]\n* = host=${hostname} port=${serverPort}`;
    writeFileSync(file, `${debian}\n${databases}\n[pgbouncer]\n${lines.join('\n')}\n`);
    const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
    const child = spawn('pgbouncer', ['-q', ...user, file], { stdio: ['ignore', 'ignore', 'pipe'] });
    let output = '';
    child.stderr.on('data', (bytes: Buffer) => (output += bytes.toString()));
    const bouncer = new PgBouncer(child, folder, port);
    await waitFor(
      () => bouncer.#responds(databaseUrl),
      () => `PgBouncer responds; its output: ${output}`,
    );
    return bouncer;
  }

  /** The URL of a database of the server, by way of PgBouncer. */
  url(databaseUrl: string): string {
    const url = new URL(databaseUrl);
    url.port = String(this.port);
    return url.href;
  }

  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await exited;
    rmSync(this.folder, { recursive: true });
  }

  async #responds(databaseUrl: string): Promise<boolean> {
    const client = new pg.Client(this.url(databaseUrl));
    client.on('error', () => undefined);
    return client.connect().then(
      () => client.end().then(() => true),
      () => false,
    );
  }
}
