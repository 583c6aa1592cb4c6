import type { AddressInfo } from 'node:net';
import type { LoggerService } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import { createApp, type CreateFromModule } from '../../src/app.setup.js';
import { type Config, loadConfig } from '../../src/config/config.js';
import type { RequestLog } from '../../src/logging/create-logger.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { insertKey } from './builders.js';
import { ManualClock } from './manual-clock.js';
import { serviceUrl } from './service-login.js';
import { createTestDatabase, type TestDatabase } from './test-database.js';

export interface TestService extends TestDatabase {
  readonly app: NestExpressApplication;
  /** `http://127.0.0.1:<port>` */
  readonly baseUrl: string;
  readonly port: number;
  readonly clock: ManualClock;
  /** Writes the counted usage, which the service does every ten seconds. */
  flushUsage(): Promise<void>;
  stop(): Promise<void>;
}

export interface TestServiceOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly clock?: ManualClock;
  readonly requestLog?: RequestLog;
  /** Gets the other log lines; nothing does by default. */
  readonly logger?: LoggerService;
  /** Replaces providers by what fails as nothing real does. */
  readonly override?: (module: TestingModuleBuilder) => TestingModuleBuilder;
  /** An existing database, to run several services on one. */
  readonly database?: TestDatabase;
  /** With the rights of the owner, for tests that put other tables, without grants, in the place of the migrations'. */
  readonly asOwner?: true;
}

/**
 * Starts the application on a free port, with its own database and a manual clock. It has the rights of a deployed service; those of
 * the owner are for the test.
 */
export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const database = options.database ?? (await createTestDatabase());
  const clock = options.clock ?? new ManualClock();
  const url = options.environment?.DATABASE_URL ?? database.url;
  const login = options.asOwner === true ? url : await serviceUrl(database, url);
  const config: Config = loadConfig({ METRICS_PORT: '0', ...options.environment, DATABASE_URL: login });
  const { logger = false, requestLog, override } = options;
  const app = await createApp(config, { clock, logger, requestLog }, override && createWith(override));
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  return {
    url: database.url,
    db: database.db,
    drop: () => database.drop(),
    app,
    clock,
    port,
    baseUrl: `http://127.0.0.1:${port}`,
    flushUsage: () => app.get(UsageRecorder).flush(),
    stop: async () => {
      app.getHttpServer().closeAllConnections();
      await app.close();
      if (options.database === undefined) {
        await database.drop();
      }
    },
  };
}

function createWith(override: NonNullable<TestServiceOptions['override']>): CreateFromModule {
  return async (module, adapter, options) => {
    const testing = await override(Test.createTestingModule({ imports: [module] })).compile();
    return testing.createNestApplication<NestExpressApplication>(adapter, options);
  };
}

/**
 * Runs the tests of the file or of the `describe` block that calls it on one service, each in a new minute.
 * @returns the service and a key that it accepts; both are set when the tests run
 */
export function useTestService(options?: TestServiceOptions): { readonly service: TestService; readonly key: string } {
  const context = {} as { service: TestService; key: string };
  beforeAll(async () => {
    context.service = await startTestService(options);
    ({ key: context.key } = await insertKey(context.service.db));
  });
  afterAll(() => context.service.stop());
  beforeEach(() => {
    context.service.clock.advance(60_000);
  });
  return context;
}
