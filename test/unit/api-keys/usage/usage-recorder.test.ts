import { ANONYMOUS_ID } from '../../../../src/api-keys/usage/usage-counts.js';
import { UNWRITTEN_MAX, UsageRecorder } from '../../../../src/api-keys/usage/usage-recorder.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ManualClock } from '../../../helpers/manual-clock.js';

const NOTHING = { admitted: 0, rejected: 0, banned: 0, lists: 0, cancels: 0, listBytes: 0 };

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
    expect([...(recorder.nextBatch()?.counts ?? [])]).toEqual([
      ['a', { admitted: 2, rejected: 1, banned: 1, lists: 2, cancels: 1, listBytes: 1_024 }],
      [ANONYMOUS_ID, { ...NOTHING, admitted: 1 }],
    ]);
    expect(recorder.unwrittenRequests()).toBe(5);
  });

  it('has no batch when nothing was counted', () => {
    expect(recorder.nextBatch()).toBeUndefined();
  });

  it('returns the same batch, without later counts, until it is written', () => {
    recorder.decided('a', 'admitted');
    const batch = recorder.nextBatch();
    recorder.decided('a', 'admitted');
    recorder.decided('b', 'admitted');
    expect(recorder.nextBatch()).toBe(batch);
    expect(batch?.counts).toEqual(new Map([['a', { ...NOTHING, admitted: 1 }]]));
    recorder.written();
    expect(recorder.nextBatch()?.counts.size).toBe(2);
    expect(recorder.nextBatch()?.number).toBe((batch?.number ?? 0) + 1);
  });

  it('seals the counts of a day when the next one begins, each with a time of its own day', () => {
    recorder.decided('a', 'admitted');
    clock.advance(10_000);
    recorder.decided('a', 'limited');
    clock.advance(4_000);
    const before = recorder.nextBatch();
    expect(before?.counts.get('a')).toMatchObject({ admitted: 1, rejected: 0 });
    expect(before?.countedAtMs).toBe(Date.UTC(2026, 10, 21, 23, 59, 55));
    recorder.written();
    const after = recorder.nextBatch();
    expect(after?.counts.get('a')).toMatchObject({ admitted: 0, rejected: 1 });
    expect(after?.countedAtMs).toBe(Date.UTC(2026, 10, 22, 0, 0, 2));
  });

  it('holds a bounded number of keys, and counts the requests that it loses', async () => {
    for (let id = 0; id < UNWRITTEN_MAX + 3; id++) {
      recorder.decided(String(id), 'admitted');
    }
    recorder.decided('0', 'limited');
    expect(await value('petstore_usage_unflushed_rows')).toBe(UNWRITTEN_MAX);
    expect(await value('petstore_usage_lost_requests_total')).toBe(3);
    expect(recorder.nextBatch()?.counts.get('0')).toMatchObject({ admitted: 1, rejected: 1 });
    recorder.written();
    expect(await value('petstore_usage_unflushed_rows')).toBe(0);
    recorder.decided('new', 'admitted');
    expect(recorder.unwrittenRequests()).toBe(1);
  });
});
