import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { LoggerService } from '@nestjs/common';
import { AppModule } from './app.module.js';
import { type Clock, systemClock } from './clock.js';
import type { Config } from './config/config.js';
import { ServiceHttpAdapter } from './http/service-http-adapter.js';
import { setUpDocs } from './docs/docs.setup.js';
import { AdmissionService } from './rate-limit/admission.service.js';

export interface AppOptions {
  readonly clock?: Clock;
  readonly logger?: LoggerService | false;
  /** False leaves every refusal to the guards, which hold without the gate. */
  readonly gate?: boolean;
}

/** Assembles the application that the server runs and the tests call. The database URL must be known. */
export async function createApp(config: Config, options: AppOptions = {}): Promise<NestExpressApplication> {
  const adapter = new ServiceHttpAdapter();
  const app = await NestFactory.create<NestExpressApplication>(
    AppModule.with(config, options.clock ?? systemClock),
    adapter,
    { bodyParser: false, ...(options.logger === undefined ? {} : { logger: options.logger }) },
  );
  if (config.docsEnabled) {
    setUpDocs(app, config);
  }
  await app.init();
  adapter.useAdmission(app.get(AdmissionService), { gate: options.gate ?? true });
  return app;
}
