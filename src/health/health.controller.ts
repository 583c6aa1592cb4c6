import { applyDecorators, Controller, Get, Header } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Public } from '../admission/admission.guards.js';
import { DomainError } from '../errors/domain-error.js';
import { NO_STORE_HEADERS } from '../http/response.js';
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

  /** Whether the process responds; depends on nothing else. */
  @Get('live')
  @NoStore()
  live(): HealthReport {
    return OK;
  }

  /** Whether to send requests here: the database responds and the service is not shutting down. */
  @Get('ready')
  @NoStore()
  async ready(): Promise<HealthReport> {
    if (!(await this.health.isReady())) {
      throw new DomainError('service_unavailable', 'The service is not ready for requests.');
    }
    return OK;
  }
}
