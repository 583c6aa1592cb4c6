import { Counter, Registry } from 'prom-client';
import { LazyCounter } from '../../../src/metrics/tallied-counter.js';

const NAME = 'decisions_total';
const HELP = 'Decisions by plan and outcome.';

describe('a tallied counter', () => {
  it("reads like prom-client's own, however often somebody looks", async () => {
    const [ours, theirs] = [new Registry(), new Registry()];
    const tallied = new LazyCounter({ name: NAME, help: HELP, labelNames: ['plan', 'outcome'], registry: ours });
    const counter = new Counter({ name: NAME, help: HELP, labelNames: ['plan', 'outcome'], registers: [theirs] });
    expect(await ours.metrics()).toBe(await theirs.metrics());
    for (const [plan, outcome] of [
      ['free', 'admitted'],
      ['pro', 'admitted'],
      ['free', 'rate_limit_exceeded'],
      ['free', 'admitted'],
    ] as const) {
      tallied.count(plan, outcome);
      counter.inc({ plan, outcome });
      expect(await ours.metrics()).toBe(await theirs.metrics());
    }
  });

  it('takes one label as well', async () => {
    const registry = new Registry();
    const tallied = new LazyCounter({ name: NAME, help: HELP, labelNames: ['plan'], registry });
    tallied.count('free');
    tallied.count('free');
    expect(await registry.metrics()).toContain(`${NAME}{plan="free"} 2`);
  });
});
