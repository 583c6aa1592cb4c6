import { Controller, Get } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Public } from '../api-keys/public.decorator.js';
import { DomainError } from '../errors/domain-error.js';
import { NoStore } from '../http/no-store.decorator.js';
import { HealthService } from './health.service.js';

interface HealthReport {
  readonly status: 'ok';
}

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
