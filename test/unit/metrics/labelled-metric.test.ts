import { Counter, Histogram, Registry } from 'prom-client';
import { LabelledMetric } from '../../../src/metrics/labelled-metric.js';

const LABELS = ['route', 'status', 'error'];

const counter = (registry: Registry): LabelledMetric<Counter> =>
  new LabelledMetric(() => new Counter({ name: 'requests', help: 'Requests.', registers: [] }), LABELS, registry);

describe('LabelledMetric', () => {
  it('exports what a labelled counter of prom-client exports', async () => {
    const [registry, expected] = [new Registry(), new Registry()];
    const ours = counter(registry);
    const theirs = new Counter({ name: 'requests', help: 'Requests.', labelNames: LABELS, registers: [expected] });
    expect(await registry.metrics()).toBe(await expected.metrics());
    ours.labels('/a', 200).inc();
    ours.labels('/b', 200).inc();
    ours.labels('/a', 200).inc(2);
    ours.labels('/a', '', 'aborted').inc();
    theirs.inc({ route: '/a', status: 200 }, 3);
    theirs.inc({ route: '/b', status: 200 });
    theirs.inc({ route: '/a', error: 'aborted' });
    expect((await registry.metrics()).split('\n').sort()).toEqual((await expected.metrics()).split('\n').sort());
  });

  it('exports what a labelled histogram of prom-client exports', async () => {
    const [registry, expected] = [new Registry(), new Registry()];
    const options = { name: 'seconds', help: 'Durations.', buckets: [0.1, 1] };
    const ours = new LabelledMetric(() => new Histogram({ ...options, registers: [] }), ['route'], registry);
    const theirs = new Histogram({ ...options, labelNames: ['route'], registers: [expected] });
    for (const seconds of [0.05, 0.5, 5]) {
      ours.labels('/a').observe(seconds);
      theirs.observe({ route: '/a' }, seconds);
    }
    expect(await registry.metrics()).toBe(await expected.metrics());
  });
});
