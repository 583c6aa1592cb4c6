import type { Pools } from '../../../src/database/pools.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { HealthService } from '../../../src/health/health.service.js';

describe('HealthService', () => {
  it('sends one query for requests that arrive while it runs, and another one afterwards', async () => {
    const responses: (() => void)[] = [];
    const query = jest.fn(() => new Promise<void>((resolve) => responses.push(resolve)));
    const health = new HealthService({ main: { query } } as unknown as Pools, new Metrics());

    const first = Array.from({ length: 100 }, () => health.isReady());
    expect(query).toHaveBeenCalledTimes(1);
    responses[0]?.();
    expect(await Promise.all(first)).toEqual(Array(100).fill(true));

    const second = health.isReady();
    expect(query).toHaveBeenCalledTimes(2);
    responses[1]?.();
    expect(await second).toBe(true);
  });
});
