import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AdmissionService } from '../rate-limit/admission.service.js';
import { refusalByKey } from '../rate-limit/refusal.js';
import { IS_PUBLIC } from './public.decorator.js';

/** Lets a request in that carries a valid API key. Runs after the limits, so that failed attempts are counted. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly admission: AdmissionService,
  ) {}

  /** @throws {DomainError} `missing_api_key` or `invalid_api_key` */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (this.reflector.getAllAndOverride<boolean>(IS_PUBLIC, [context.getHandler(), context.getClass()])) {
      return true;
    }
    const refusal = refusalByKey(await this.admission.admit(context.switchToHttp().getRequest<IncomingMessage>()));
    if (refusal !== undefined) {
      throw refusal;
    }
    return true;
  }
}
