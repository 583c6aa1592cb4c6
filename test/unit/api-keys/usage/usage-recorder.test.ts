import { ANONYMOUS_ID } from '../../../../src/plans/plans.js';
import { NO_USAGE, ROWS_MAX, UsageRecorder } from '../../../../src/api-keys/usage/usage-recorder.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ManualClock } from '../../../helpers/manual-clock.js';

const DAY = Date.UTC(2026, 10, 21) / 86_400_000;

let clock: ManualClock;
let metrics: Metrics;
let recorder: UsageRecorder;
beforeEach(() => {
  clock = new ManualClock(Date.UTC(2026, 10, 21, 23, 59, 50));
  metrics = new Metrics();
  recorder = new UsageRecorder(clock, metrics);
});

const value = async (name: string): Promise<number | undefined> =>
  (await metrics.registry.getSingleMetric(name)?.get())?.values[0]?.value;

describe('UsageRecorder', () => {
  it('adds up what each key does', () => {
    for (const count of ['admitted', 'admitted', 'rejected', 'banned']) {
      recorder.add('a', { [count]: 1 });
    }
    recorder.add('a', { lists: 1, listBytes: 1_000 });
    recorder.add('a', { lists: 1, listBytes: 24 });
    recorder.add('a', { cancels: 1 });
    recorder.add(ANONYMOUS_ID, { admitted: 1 });
    expect(recorder.take()).toEqual([
      { keyId: 'a', day: DAY, admitted: 2, rejected: 1, banned: 1, lists: 2, cancels: 1, listBytes: 1_024 },
      { keyId: ANONYMOUS_ID, day: DAY, ...NO_USAGE, admitted: 1 },
    ]);
    expect(recorder.take()).toEqual([]);
  });

  it('counts each request on its own UTC day', () => {
    recorder.add('a', { admitted: 1 });
    clock.advance(9_999);
    recorder.add('a', { admitted: 1 });
    clock.advance(1);
    recorder.add('a', { rejected: 1 });
    expect(recorder.take()).toEqual([
      { keyId: 'a', day: DAY, ...NO_USAGE, admitted: 2 },
      { keyId: 'a', day: DAY + 1, ...NO_USAGE, rejected: 1 },
    ]);
    expect(recorder.today()).toBe(DAY + 1);
  });

  it('adds what could not be written to what was counted since, on the day on which it was counted', () => {
    recorder.add('a', { admitted: 1 });
    recorder.add('a', { lists: 1, listBytes: 10 });
    const rows = recorder.take();
    recorder.add('a', { admitted: 1 });
    clock.advance(10_000);
    recorder.add('a', { admitted: 1 });
    recorder.giveBack(rows);
    expect(recorder.take()).toEqual([
      { keyId: 'a', day: DAY, ...NO_USAGE, admitted: 2, lists: 1, listBytes: 10 },
      { keyId: 'a', day: DAY + 1, ...NO_USAGE, admitted: 1 },
    ]);
  });

  it('holds a bounded number of rows, and counts the requests that it loses', async () => {
    recorder.add('first', { admitted: 1 });
    recorder.add('first', { banned: 1 });
    const rows = recorder.take();
    for (let id = 0; id < ROWS_MAX + 3; id++) {
      recorder.add(String(id), { admitted: 1 });
    }
    recorder.add('0', { rejected: 1 });
    recorder.giveBack(rows);
    expect(await value('petstore_usage_unflushed_rows')).toBe(ROWS_MAX);
    expect(await value('petstore_usage_lost_requests_total')).toBe(5);
    expect(recorder.take()[0]).toMatchObject({ keyId: '0', admitted: 1, rejected: 1 });
    expect(await value('petstore_usage_unflushed_rows')).toBe(0);
  });
});
