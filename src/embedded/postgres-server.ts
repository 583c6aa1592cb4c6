import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, SUPERUSER } from './cluster.js';

const START_ATTEMPTS = 3;

export interface PostgresServerOptions {
  /** Holds the cluster (`postgres/`), its password and its log. Created when it does not exist. */
  readonly folder: string;
  /** Settings of `postgresql.conf` that differ from the defaults. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Chooses the port for each attempt to start. */
  readonly choosePort?: () => Promise<number>;
  /** The `native` folder of another version's package; default: the installed one. */
  readonly programs?: string | undefined;
}

/**
 * A PostgreSQL server on 127.0.0.1. `pg_ctl` starts it in a session of its own, where neither Ctrl-C nor `nest start
 * --watch`, which kills the process tree, reaches it. An exit of this process shuts it down.
 */
export class PostgresServer {
  private constructor(
    private readonly cluster: Cluster,
    private readonly port: number,
    private readonly password: string,
  ) {
    process.once('exit', this.#shutDownNow);
  }

  /** @throws {Error} with the end of the server's log when the server does not start */
  static async start({
    folder,
    settings = {},
    choosePort = freePort,
    programs,
  }: PostgresServerOptions): Promise<PostgresServer> {
    mkdirSync(folder, { recursive: true });
    const cluster = new Cluster(folder, programs);
    await cluster.initialiseOnce();
    await cluster.stop();
    cluster.removeStalePidFile();
    const password = await cluster.password();
    for (let attempt = 1; ; attempt++) {
      const port = await choosePort();
      try {
        await cluster.start(port, settings);
        return new PostgresServer(cluster, port, password);
      } catch (error) {
        // The port was taken meanwhile, or processes of a killed server are still ending.
        if (attempt === START_ATTEMPTS) {
          throw error;
        }
        await delay(500);
      }
    }
  }

  /** The process id while the server runs. */
  get pid(): number | undefined {
    return this.cluster.postmasterPid();
  }

  /** The connection URL of one of the server's databases. */
  url(database: string): string {
    return `postgresql://${SUPERUSER}:${this.password}@127.0.0.1:${this.port}/${database}`;
  }

  /** Stops the server and closes its connections. */
  async stop(): Promise<void> {
    await this.cluster.stop();
    process.off('exit', this.#shutDownNow);
  }

  readonly #shutDownNow = (): void => {
    this.cluster.signal('SIGQUIT');
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
