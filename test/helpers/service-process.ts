import { type ChildProcess, spawn } from 'node:child_process';
import { insertKey } from './builders.js';
import { CLI } from './build.js';
import { freePort } from './free-port.js';
import { ServiceMetrics } from './service-metrics.js';
import { createTestDatabase, type TestDatabase } from './test-database.js';
import { waitFor } from './wait-for.js';

/** The built service in its own process, as `npm start` runs it, on a free port, with the real clock. */
export class ServiceProcess {
  #output = '';
  #port = 0;
  /** The process has exited and its output is complete. */
  #closed = false;

  private constructor(private readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.#output += chunk.toString()));
    }
    child.once('close', () => (this.#closed = true));
  }

  static async start(environment: Readonly<Record<string, string>>, cli = CLI): Promise<ServiceProcess> {
    const child = spawn(process.execPath, ['--enable-source-maps', cli, 'serve'], {
      env: { ...process.env, NODE_ENV: 'test', PORT: '0', METRICS_PORT: '0', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const service = new ServiceProcess(child);
    try {
      await waitFor(
        () => service.#listens(),
        () => `the service listens; its output: ${service.#output}`,
        { withinMs: 120_000 },
      );
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
    return service;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** The output on stdout and stderr. */
  get output(): string {
    return this.#output;
  }

  /** The output since the last call. A long run would produce too much output to keep. */
  takeOutput(): string {
    const output = this.#output;
    this.#output = '';
    return output;
  }

  /** Sends a signal and resolves with the exit code. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) {
      return this.child.exitCode;
    }
    const exited = new Promise<number | null>((resolve) => this.child.once('exit', resolve));
    this.child.kill(signal);
    return exited;
  }

  #listens(): boolean {
    if (this.#closed) {
      throw new Error(`The service ended with ${this.child.exitCode}: ${this.#output}`);
    }
    const port = /"port":(\d+),"msg":"listening"/.exec(this.#output)?.[1];
    this.#port = Number(port ?? 0);
    return port !== undefined;
  }
}

export interface ProcessContext {
  database: TestDatabase;
  service: ServiceProcess;
  /** A key that the service accepts. */
  key: string;
  metricsPort: number;
  metrics: () => Promise<ServiceMetrics>;
}

/**
 * Runs the tests of the file or of the `describe` block that calls it on one process with a database of its own.
 * @returns what is set when the tests run
 */
export function useServiceProcess(
  environment: Readonly<Record<string, string>> = {},
  cli = CLI,
): Readonly<ProcessContext> {
  const context = { metrics: () => ServiceMetrics.scrape(context.metricsPort) } as ProcessContext;
  beforeAll(async () => {
    context.database = await createTestDatabase();
    ({ key: context.key } = await insertKey(context.database.db));
    context.metricsPort = await freePort();
    const own = { DATABASE_URL: context.database.url, METRICS_PORT: String(context.metricsPort) };
    context.service = await ServiceProcess.start({ ...own, ...environment }, cli);
  });
  afterAll(async () => {
    await context.service.stop();
    await context.database.drop();
  });
  return context;
}
