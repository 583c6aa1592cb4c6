import { applyDecorators, Controller, Get, Header } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Public } from '../admission/public-routes.js';
import { DomainError } from '../errors/domain-error.js';
import { NO_STORE_HEADERS } from '../http/headers.js';
import { HealthService } from './health.service.js';

interface HealthReport {
  readonly status: 'ok';
}

const NoStore = (): MethodDecorator => applyDecorators(...NO_STORE_HEADERS.map(([name, value]) => Header(name, value)));

const OK: HealthReport = { status: 'ok' };

@Public()
@ApiExcludeController()
@Controller('health')
export class HealthController {
  constructor(private readonly health: HealthService) {}

  /** Whether the process answers at all; depends on nothing else. */
  @Get('live')
  @NoStore()
  live(): HealthReport {
    return OK;
  }

  /** Whether requests should be sent here: the database answers and the service is not shutting down. */
  @Get('ready')
  @NoStore()
  async ready(): Promise<HealthReport> {
    if (!(await this.health.isReady())) {
      throw new DomainError('service_unavailable', 'The service is not ready to take requests.');
    }
    return OK;
  }
}
