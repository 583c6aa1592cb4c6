import { Controller, Get } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { DomainError } from '../errors/domain-error.js';
import { Public } from '../http/decorators.js';
import { HealthService } from './health.service.js';

const OK = { status: 'ok' } as const;

@ApiExcludeController()
@Public()
@Controller('health')
export class HealthController {
  constructor(private readonly health: HealthService) {}

  /** Whether the process responds; depends on nothing else. */
  @Get('live')
  live(): typeof OK {
    return OK;
  }

  /** Whether to send requests here: the database responds with its tables, and the service is not shutting down. */
  @Get('ready')
  async ready(): Promise<typeof OK> {
    if (!(await this.health.isReady())) {
      throw new DomainError('service_unavailable', 'The service is not ready for requests.');
    }
    return OK;
  }
}
