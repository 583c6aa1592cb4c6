import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { ApiKeysService } from '../api-keys/api-keys.service.js';
import { readBearer } from '../api-keys/bearer.js';
import { KeyUsageRecorder } from '../api-keys/key-usage.recorder.js';
import type { VerifiedKey } from '../api-keys/verified-key.js';
import { CLOCK, type Clock } from '../clock.js';
import { ClientAddress } from '../http/client-address.js';
import { asError } from '../errors/as-error.js';
import { Metrics } from '../metrics/metrics.js';
import { isPromise } from '../is-promise.js';
import type { Admission, AnonymousCaller, KeyCaller } from './caller.js';
import { verdictOfUnused } from './decision.js';
import type { Verdict } from './verdict.js';
import { ANONYMOUS_QUOTAS } from './plans.js';
import { QUOTA_STORE, type QuotaStore } from './quota-store.js';
import { subjectOfAddress, subjectOfKey } from './subject.js';

const ADMISSION = Symbol('admission');

type AdmittedRequest = IncomingMessage & { [ADMISSION]?: Admission | Promise<Admission> };

/**
 * Decides whether a request may go on: identifies the caller, then counts the request against it. Every request is
 * decided once, however many ask: the gate in front of Express, the guards and the exception filter read one memo.
 */
@Injectable()
export class AdmissionService {
  constructor(
    private readonly apiKeys: ApiKeysService,
    private readonly usage: KeyUsageRecorder,
    @Inject(QUOTA_STORE) private readonly quotas: QuotaStore,
    private readonly clientAddress: ClientAddress,
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly metrics: Metrics,
  ) {}

  /** The decision about a request; without a promise where everything is known without waiting. Never rejects. */
  admit(req: IncomingMessage): Admission | Promise<Admission> {
    const request = req as AdmittedRequest;
    const memo = request[ADMISSION];
    if (memo !== undefined) {
      return memo;
    }
    const admission = this.#decide(req);
    request[ADMISSION] = admission;
    if (isPromise(admission)) {
      void admission.then((settled) => {
        request[ADMISSION] = settled;
      });
    }
    return admission;
  }

  /** The decision if it has been made and is known by now. */
  settledAdmissionOf(req: IncomingMessage): Admission | undefined {
    const memo = (req as AdmittedRequest)[ADMISSION];
    return memo === undefined || isPromise(memo) ? undefined : memo;
  }

  /** Counts a request that has no identity, such as one that the HTTP parser refused, against an address. */
  admitAddress(address: string): Admission | Promise<Admission> {
    return this.#count(anonymous('missing', address));
  }

  #decide(req: IncomingMessage): Admission | Promise<Admission> {
    const bearer = readBearer(req.rawHeaders);
    if (bearer.kind !== 'token') {
      return this.#count(anonymous(bearer.kind === 'missing' ? 'missing' : 'invalid', this.clientAddress.of(req)));
    }
    const key = this.apiKeys.verify(bearer.token);
    return isPromise(key)
      ? key.then(
          (found) => this.#countKey(found, req),
          (failure: unknown) => this.#refuseUnverified(asError(failure)),
        )
      : this.#countKey(key, req);
  }

  #countKey(key: VerifiedKey | undefined, req: IncomingMessage): Admission | Promise<Admission> {
    return this.#count(
      key === undefined
        ? anonymous('invalid', this.clientAddress.of(req))
        : { kind: 'key', key, subject: subjectOfKey(key.id), quotas: key.quotas },
    );
  }

  /** The answer still carries limit headers: those of an address that has used nothing, since nothing is counted. */
  #refuseUnverified(failure: Error): Admission {
    return { caller: { kind: 'unverified', failure }, verdict: verdictOfUnused(ANONYMOUS_QUOTAS, this.clock.now()) };
  }

  #count(caller: KeyCaller | AnonymousCaller): Admission | Promise<Admission> {
    if (caller.kind === 'key') {
      this.usage.used(caller.key.id);
    }
    const verdict = this.quotas.take(caller.subject, caller.quotas);
    return isPromise(verdict)
      ? verdict.then((settled) => this.#decided(caller, settled))
      : this.#decided(caller, verdict);
  }

  #decided(caller: KeyCaller | AnonymousCaller, verdict: Verdict): Admission {
    const plan = caller.kind === 'key' ? caller.key.plan : 'anonymous';
    this.metrics.limiterDecisions.count(plan, verdict.outcome);
    return { caller, verdict };
  }
}

function anonymous(credentials: 'missing' | 'invalid', address: string): AnonymousCaller {
  return { kind: 'anonymous', credentials, subject: subjectOfAddress(address), quotas: ANONYMOUS_QUOTAS };
}
