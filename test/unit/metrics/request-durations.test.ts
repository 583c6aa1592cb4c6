import { Histogram, Registry } from 'prom-client';
import { RequestDurations } from '../../../src/metrics/request-durations.js';

const LABELS = ['http_request_method', 'http_route', 'http_response_status_code'] as const;

/** Each line of a sample, without help and type, in no particular order. */
async function samplesOf(registry: Registry): Promise<string[]> {
  return (await registry.metrics())
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(',').sort().join()}}`))
    .sort();
}

describe('request durations', () => {
  it("read like prom-client's own histogram", async () => {
    const [ours, theirs] = [new Registry(), new Registry()];
    const durations = new RequestDurations(ours);
    const histogram = new Histogram({
      name: durations.name,
      help: 'The same, as prom-client counts it.',
      labelNames: LABELS,
      buckets: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
      registers: [theirs],
    });
    for (const [method, route, status, seconds] of [
      ['GET', '/v1/store/orders', 200, 0.5],
      ['GET', '/v1/store/orders', 200, 0.005],
      ['GET', '/v1/store/orders', 304, 0.0050001],
      ['DELETE', '/v1/store/orders/{orderId}', 204, 0],
      ['DELETE', '/v1/store/orders/{orderId}', 204, 10],
      ['DELETE', '/v1/store/orders/{orderId}', 204, 12.25],
    ] as const) {
      durations.observe(method, route, status, seconds);
      histogram.observe({ http_request_method: method, http_route: route, http_response_status_code: status }, seconds);
    }
    const samples = await samplesOf(ours);
    expect(samples).toHaveLength(3 * 17);
    expect(samples).toEqual(await samplesOf(theirs));
  });
});
