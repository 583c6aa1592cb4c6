import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer, type PostgresServerOptions } from '../../src/embedded/postgres-server.js';
import { waitForExit } from '../helpers/demo-service.js';
import { freePort } from '../helpers/free-port.js';

jest.setTimeout(60_000);

let folder: string;
let server: PostgresServer | undefined;
let stranger: ChildProcess | undefined;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'petstore-embedded-'));
});
afterEach(async () => {
  await server?.stop();
  stranger?.kill('SIGKILL');
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function start(options: Partial<PostgresServerOptions> = {}): Promise<PostgresServer> {
  server = await PostgresServer.start({ folder, settings: { fsync: 'off' }, ...options });
  return server;
}

async function selectOne(url: string): Promise<unknown> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query('SELECT 1 AS one')).rows;
  } finally {
    await client.end();
  }
}

/** A process that has nothing to do with PostgreSQL; any signal would end it. */
async function startStranger(): Promise<number> {
  stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000); console.log("ready")'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise((resolve) => stranger?.stdout?.once('data', resolve));
  return stranger.pid!;
}

const recordPid = (pid: number): void => {
  const data = join(folder, 'postgres');
  writeFileSync(join(data, 'postmaster.pid'), `${pid}\n${data}\n1700000000\n5432\n\n127.0.0.1\n\nready   \n`);
};

describe('PostgresServer.start', () => {
  it('initialises a cluster, removing what an interrupted initialisation left', async () => {
    mkdirSync(join(folder, 'postgres.new-interrupted'));
    writeFileSync(join(folder, 'postgres.new-interrupted', 'PG_VERSION'), '18\n');
    expect(await selectOne((await start()).url('postgres'))).toEqual([{ one: 1 }]);
    expect(readdirSync(folder).filter((name) => name.startsWith('postgres.new'))).toEqual([]);
  });

  it.each([
    ['is truncated', 'deadbeef'],
    ['is empty', ''],
  ])('sets a new password when postgres-password %s', async (_condition, content) => {
    writeFileSync(join(folder, 'postgres-password'), content);
    expect(await selectOne((await start()).url('postgres'))).toEqual([{ one: 1 }]);
  });

  it('chooses another port when the first is taken meanwhile', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port: taken } = other.address() as { port: number };
    const ports = [taken];
    const { url } = {
      url: (await start({ choosePort: async () => ports.pop() ?? (await freePort()) })).url('postgres'),
    };
    expect(new URL(url).port).not.toBe(String(taken));
    expect(await selectOne(url)).toEqual([{ one: 1 }]);
    other.close();
  });

  it('recovers after the postmaster was killed', async () => {
    process.kill((await start()).pid!, 'SIGKILL');
    expect(await selectOne((await start()).url('postgres'))).toEqual([{ one: 1 }]);
  });

  it('stops a server that still runs on the cluster', async () => {
    const orphan = (await start()).pid!;
    expect((await start()).pid).not.toBe(orphan);
    await waitForExit(orphan);
  });

  it('does not signal an unrelated process whose id is in a stale postmaster.pid', async () => {
    recordPid(await startStranger());
    expect(await selectOne((await start()).url('postgres'))).toEqual([{ one: 1 }]);
    expect(stranger).toMatchObject({ exitCode: null, signalCode: null });
  });
});

describe('PostgresServer.stop', () => {
  it('does not signal an unrelated process that has the id of a crashed postmaster', async () => {
    const crashed = await start();
    process.kill(crashed.pid!, 'SIGKILL');
    recordPid(await startStranger());
    await crashed.stop();
    expect(stranger).toMatchObject({ exitCode: null, signalCode: null });
  });
});
