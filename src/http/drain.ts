import type { Server } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { CONFIG, type Config } from '../config/config.js';
import type { ServiceHttpAdapter } from './service-http-adapter.js';

/**
 * Stops the HTTP server without losing a request. The readiness check fails already (`HealthService`); Nest closes the server after this,
 * and the pools end last.
 */
@Injectable()
export class Drain implements BeforeApplicationShutdown {
  constructor(
    private readonly host: HttpAdapterHost<ServiceHttpAdapter>,
    @Inject(CONFIG) private readonly config: Config,
  ) {}

  /** Keeps responding until load balancers have noticed. In-flight requests may then take the grace period. */
  async beforeApplicationShutdown(): Promise<void> {
    const { httpAdapter } = this.host;
    const { connections } = httpAdapter;
    if (!(httpAdapter.getHttpServer() as Server).listening) {
      // The start has failed, so nobody sends requests here.
      return;
    }
    connections.startDraining();
    await delay(this.config.shutdownDelaySeconds * 1_000);
    setTimeout(() => {
      connections.cut();
    }, this.config.shutdownGraceSeconds * 1_000).unref();
  }
}
