import { join } from 'node:path';
import { inBackground } from '../../common/in-background.js';
import { PROJECT_ROOT } from '../../common/project-root.js';
import { runningServer, urlOf } from './cluster.js';
import { demoBanner, prepareDemo } from './demo.js';
import { migrate } from './migrate.js';
import { PostgresServer } from './postgres-server.js';

/** This server has no TLS, whatever a developer's PGSSLMODE requires of others. */
const DATABASE = 'postgres?sslmode=disable';

/** Holds the cluster. */
const EMBEDDED_FOLDER = join(PROJECT_ROOT, '.data');

export interface EmbeddedDatabase {
  readonly url: string;
  /** A key of the demo data, prefilled in Swagger UI. */
  readonly demoKey: string;
  /** What a developer needs for the first requests. */
  banner(baseUrl: string, docsEnabled: boolean): string;
  stop(): Promise<void>;
}

/**
 * Starts the embedded PostgreSQL in `.data/`, applies the migrations and inserts the demo data.
 * @param stop ends the start after the current step; aborted with an error when PostgreSQL ends by itself
 * @throws {Error} when another service runs on the same folder
 * @throws the reason of `stop`
 */
export async function startEmbeddedDatabase(stop: AbortController): Promise<EmbeddedDatabase> {
  process.stderr.write('Starting PostgreSQL in .data/; the first start, which creates it, takes a few seconds.\n');
  const server = await PostgresServer.start({ folder: EMBEDDED_FOLDER });
  try {
    stop.signal.throwIfAborted();
    const url = server.url(DATABASE);
    await migrate(url);
    const demo = await prepareDemo(url);
    stop.signal.throwIfAborted();
    const abort = (): void => {
      stop.abort(new Error(`The embedded PostgreSQL has ended (log: ${EMBEDDED_FOLDER}/postgres.log). Start again.`));
    };
    inBackground(server.ended.then(abort));
    return {
      url,
      demoKey: demo.keys.free,
      banner: (baseUrl, docsEnabled) => demoBanner(baseUrl, url, demo, docsEnabled),
      stop: () => server.stop(),
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** The database of an embedded service that is running, for the commands. */
export function runningEmbeddedDatabaseUrl(): string | undefined {
  const server = runningServer(EMBEDDED_FOLDER);
  return server === undefined ? undefined : urlOf(EMBEDDED_FOLDER, server.port, DATABASE);
}
