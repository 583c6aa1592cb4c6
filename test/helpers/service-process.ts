import { insertKey } from './builders.js';
import { CLI } from './build.js';
import { freePort } from './free-port.js';
import { Program } from './program.js';
import { ServiceMetrics } from './service-metrics.js';
import { createTestDatabase, type TestDatabase } from './test-database.js';

/** The built service in its own process, as `npm start` runs it, on a free port, with the real clock. */
export class ServiceProcess extends Program {
  port = 0;

  static async start(environment: Readonly<Record<string, string>>, cli = CLI): Promise<ServiceProcess> {
    const service = new ServiceProcess([process.execPath, '--enable-source-maps', cli, 'serve'], {
      env: { ...process.env, NODE_ENV: 'test', PORT: '0', METRICS_PORT: '0', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    try {
      service.port = Number(await service.untilOutput(/"port":(\d+),"msg":"listening"/));
    } catch (error) {
      service.child.kill('SIGKILL');
      throw error;
    }
    return service;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The output since the last call. A long run would produce too much output to keep. */
  takeOutput(): string {
    const output = this.output;
    this.output = '';
    return output;
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
