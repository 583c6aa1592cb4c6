import type { PrismaService } from '../../../src/database/prisma.service.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { HealthService } from '../../../src/health/health.js';

describe('HealthService', () => {
  it('sends one query for requests that arrive while it runs, and another one afterwards', async () => {
    const responses: (() => void)[] = [];
    const execute = jest.fn(() => new Promise<void>((resolve) => responses.push(resolve)));
    const health = new HealthService({ execute } as unknown as PrismaService, new Metrics());

    const first = Array.from({ length: 100 }, () => health.isReady());
    expect(execute).toHaveBeenCalledTimes(1);
    responses[0]?.();
    expect(await Promise.all(first)).toEqual(Array(100).fill(true));

    const second = health.isReady();
    expect(execute).toHaveBeenCalledTimes(2);
    responses[1]?.();
    expect(await second).toBe(true);
  });
});
