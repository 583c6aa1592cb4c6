import { ANONYMOUS_ID, NO_USAGE, ROWS_MAX, UsageRecorder } from '../../../../src/api-keys/usage/usage-recorder.js';
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
    for (const outcome of ['admitted', 'admitted', 'limited', 'banned'] as const) {
      recorder.decided('a', outcome);
    }
    recorder.listed('a', 1_000);
    recorder.listed('a', 24);
    recorder.cancelled('a');
    recorder.decided(ANONYMOUS_ID, 'admitted');
    expect(recorder.take()).toEqual([
      { keyId: 'a', day: DAY, admitted: 2, rejected: 1, banned: 1, lists: 2, cancels: 1, listBytes: 1_024 },
      { keyId: ANONYMOUS_ID, day: DAY, ...NO_USAGE, admitted: 1 },
    ]);
    expect(recorder.take()).toEqual([]);
  });

  it('counts each request on its own UTC day', () => {
    recorder.decided('a', 'admitted');
    clock.advance(9_999);
    recorder.decided('a', 'admitted');
    clock.advance(1);
    recorder.decided('a', 'limited');
    expect(recorder.take()).toEqual([
      { keyId: 'a', day: DAY, ...NO_USAGE, admitted: 2 },
      { keyId: 'a', day: DAY + 1, ...NO_USAGE, rejected: 1 },
    ]);
    expect(recorder.today()).toBe(DAY + 1);
  });

  it('adds what could not be written to what was counted since, on the day on which it was counted', () => {
    recorder.decided('a', 'admitted');
    recorder.listed('a', 10);
    const rows = recorder.take();
    recorder.decided('a', 'admitted');
    clock.advance(10_000);
    recorder.decided('a', 'admitted');
    recorder.giveBack(rows);
    expect(recorder.take()).toEqual([
      { keyId: 'a', day: DAY, ...NO_USAGE, admitted: 2, lists: 1, listBytes: 10 },
      { keyId: 'a', day: DAY + 1, ...NO_USAGE, admitted: 1 },
    ]);
  });

  it('holds a bounded number of rows, and counts the requests that it loses', async () => {
    recorder.decided('first', 'admitted');
    recorder.decided('first', 'banned');
    const rows = recorder.take();
    for (let id = 0; id < ROWS_MAX + 3; id++) {
      recorder.decided(String(id), 'admitted');
    }
    recorder.decided('0', 'limited');
    recorder.giveBack(rows);
    expect(await value('petstore_usage_unflushed_rows')).toBe(ROWS_MAX);
    expect(await value('petstore_usage_lost_requests_total')).toBe(5);
    expect(recorder.take()[0]).toMatchObject({ keyId: '0', admitted: 1, rejected: 1 });
    expect(await value('petstore_usage_unflushed_rows')).toBe(0);
  });
});
