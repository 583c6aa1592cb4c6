import { applyDecorators, Controller, Get, Header, Injectable } from '@nestjs/common';
import { Public } from '../admission/admission.guards.js';
import { withDeadline } from '../common/deadline.js';
import { PrismaService } from '../database/prisma.service.js';
import { DomainError } from '../errors/domain-error.js';
import { NO_STORE_HEADERS } from '../http/response.js';
import { Metrics } from '../metrics/metrics.js';

/** How long the database may take to respond before the service reports unready. Milliseconds. */
const PING_TIMEOUT_MS = 1_000;

@Injectable()
export class HealthService {
  #draining = false;
  /** The ping in flight. Anyone may ask, and a flood must not take the connections that cancels need. */
  #ping: Promise<boolean> | undefined;

  constructor(
    private readonly prisma: PrismaService,
    metrics: Metrics,
  ) {
    metrics.watch('ready', () => this.isReady());
  }

  /** From now on the service reports unready, so that balancers send no more requests. */
  startDraining(): void {
    this.#draining = true;
  }

  /** Whether to send requests here. Resolves within a second. */
  async isReady(): Promise<boolean> {
    if (this.#draining) {
      return false;
    }
    this.#ping ??= withDeadline(this.prisma.isUsable(), PING_TIMEOUT_MS)
      .catch(() => false)
      .finally(() => {
        this.#ping = undefined;
      });
    return this.#ping;
  }
}

const NoStore = (): MethodDecorator => applyDecorators(...NO_STORE_HEADERS.map(([name, value]) => Header(name, value)));

const OK = { status: 'ok' } as const;

@Public()
@Controller('health')
export class HealthController {
  constructor(private readonly health: HealthService) {}

  /** Whether the process responds; depends on nothing else. */
  @Get('live')
  @NoStore()
  live(): typeof OK {
    return OK;
  }

  /** Whether to send requests here: the database responds with its tables, and the service is not shutting down. */
  @Get('ready')
  @NoStore()
  async ready(): Promise<typeof OK> {
    if (!(await this.health.isReady())) {
      throw new DomainError('service_unavailable', 'The service is not ready for requests.');
    }
    return OK;
  }
}
