import { Logger } from '@nestjs/common';
import type { ApiKeysRepository } from '../../../../src/api-keys/api-keys.repository.js';
import { ANONYMOUS_ID } from '../../../../src/api-keys/usage/usage-counts.js';
import { type UsageBatch, UsageRecorder } from '../../../../src/api-keys/usage/usage-recorder.js';
import { UsageWriter } from '../../../../src/api-keys/usage/usage-writer.js';
import type { UsageRepository } from '../../../../src/api-keys/usage/usage.repository.js';
import type { Config } from '../../../../src/config/config.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ManualClock } from '../../../helpers/manual-clock.js';

const HOUR_MS = 3_600_000;

const add = jest.fn<Promise<number>, [UsageBatch, number]>();
const removeOld = jest.fn<Promise<number>, [number, number]>();
const countOld = jest.fn<Promise<number>, [number]>();
const touch = jest.fn<Promise<void>, [readonly string[]]>();
let clock: ManualClock;
let metrics: Metrics;
let recorder: UsageRecorder;
let writer: UsageWriter;

beforeAll(() => {
  Logger.overrideLogger(false);
});
beforeEach(() => {
  jest.useFakeTimers();
  add.mockReset().mockImplementation(({ counts }) => Promise.resolve(counts.size));
  removeOld.mockReset().mockResolvedValue(0);
  countOld.mockReset().mockResolvedValue(0);
  touch.mockReset().mockResolvedValue();
  clock = new ManualClock();
  metrics = new Metrics();
  recorder = new UsageRecorder(clock, metrics);
  const repository = { add, removeOld, countOld, removeOldWriters: () => Promise.resolve() };
  writer = new UsageWriter(
    recorder,
    repository as unknown as UsageRepository,
    { touch } as unknown as ApiKeysRepository,
    clock,
    { usageRetentionDays: 400 } as Config,
    metrics,
  );
});
afterEach(() => {
  jest.useRealTimers();
});

/** The keys of each batch that was sent. */
const sent = (): string[][] => add.mock.calls.map(([{ counts }]) => [...counts.keys()]);
const lines = (level: 'log' | 'warn'): jest.SpyInstance => jest.spyOn(Logger.prototype, level);
const total = async (name: string): Promise<number | undefined> =>
  (await metrics.registry.getSingleMetric(name)?.get())?.values[0]?.value;

describe('UsageWriter writes', () => {
  it('what was counted every ten seconds, in one statement', async () => {
    writer.onApplicationBootstrap();
    for (const id of ['a', 'b', 'a']) {
      recorder.decided(id, 'admitted');
    }
    await jest.advanceTimersByTimeAsync(9_999);
    expect(sent()).toEqual([]);
    await jest.advanceTimersByTimeAsync(1);
    expect(sent()).toEqual([['a', 'b']]);
    expect(await total('petstore_usage_rows_written_total')).toBe(2);
    await jest.advanceTimersByTimeAsync(60_000);
    expect(sent()).toHaveLength(1);
  });

  it('a batch that failed again, unchanged and under its number, before the later counts', async () => {
    const warn = lines('warn');
    add.mockRejectedValue(new Error('connection lost'));
    recorder.decided('a', 'admitted');
    await writer.flush();
    recorder.decided('a', 'admitted');
    recorder.decided('b', 'admitted');
    await writer.flush();
    add.mockResolvedValue(1);
    await writer.flush();
    await writer.flush();
    expect(add.mock.calls.map(([{ number }]) => number)).toEqual([1, 1, 1, 2]);
    expect(sent()).toEqual([['a'], ['a'], ['a'], ['a', 'b']]);
    expect(await total('petstore_usage_flush_failures_total')).toBe(2);
    expect(warn.mock.calls).toEqual([['cannot write usage, keeping it in memory: connection lost']]);
  });

  it('the age of a batch, so that a late one gets the day on which it was counted', async () => {
    add.mockRejectedValueOnce(new Error('connection lost'));
    recorder.decided('a', 'admitted');
    await writer.flush();
    clock.advance(HOUR_MS);
    await writer.flush();
    expect(add.mock.calls.map(([, ageMs]) => ageMs)).toEqual([0, HOUR_MS]);
  });

  it('everything when the service stops, also after a failure, and says what it loses', async () => {
    const warn = lines('warn');
    add.mockRejectedValueOnce(new Error('connection lost'));
    recorder.decided('a', 'admitted');
    await writer.flush();
    recorder.decided('b', 'admitted');
    await writer.onApplicationShutdown();
    expect(sent()).toEqual([['a'], ['a'], ['b']]);
    add.mockRejectedValue(new Error('connection lost'));
    recorder.decided('b', 'admitted');
    recorder.decided('c', 'banned');
    warn.mockClear();
    await writer.onApplicationShutdown();
    expect(warn).toHaveBeenLastCalledWith('lost the usage of 2 requests: it could not be written before the stop');
  });

  it.each(['42P01', '42501'])('names the migration when the database reports %s', async (code) => {
    const warn = lines('warn');
    add.mockRejectedValue(Object.assign(new Error('relation "api_key_usage"'), { code }));
    recorder.decided('a', 'admitted');
    await writer.flush();
    expect(warn).toHaveBeenLastCalledWith(
      'cannot write usage, keeping it in memory: relation "api_key_usage"; apply the migration 20261122000002_api_key_usage',
    );
  });
});

describe('UsageWriter records the last use of a key', () => {
  it('at most once a minute', async () => {
    for (const [advanceMs, ids] of [
      [0, ['a']],
      [59_999, ['a', 'b']],
      [1, ['a', 'b']],
    ] as const) {
      clock.advance(advanceMs);
      for (const id of ids) {
        recorder.decided(id, 'limited');
      }
      await writer.flush();
    }
    expect(touch.mock.calls).toEqual([[['a']], [['b']], [['a']]]);
  });

  it('even when its usage cannot be written, but not for requests without a key', async () => {
    add.mockRejectedValue(new Error('relation does not exist'));
    recorder.decided(ANONYMOUS_ID, 'admitted');
    recorder.decided('a', 'admitted');
    await writer.flush();
    expect(touch.mock.calls).toEqual([[['a']]]);
  });

  it('and continues after a failure', async () => {
    touch.mockRejectedValueOnce(new Error('connection lost'));
    recorder.decided('a', 'admitted');
    await expect(writer.flush()).resolves.toBeUndefined();
    recorder.decided('b', 'admitted');
    await writer.flush();
    expect(touch.mock.calls).toEqual([[['a']], [['b']]]);
  });
});

describe('UsageWriter removes old days', () => {
  it('in steps until one is not full, once an hour', async () => {
    removeOld.mockResolvedValueOnce(10_000).mockResolvedValueOnce(10_000).mockResolvedValueOnce(7);
    await writer.prune();
    expect(removeOld.mock.calls).toEqual([
      [400, 10_000],
      [400, 10_000],
      [400, 10_000],
    ]);
    clock.advance(HOUR_MS - 1);
    await writer.prune();
    expect(removeOld).toHaveBeenCalledTimes(3);
    clock.advance(1);
    await writer.prune();
    expect(removeOld).toHaveBeenCalledTimes(4);
  });

  it('and logs the progress, the rate and the remaining time every ten seconds', async () => {
    const log = lines('log');
    let steps = 0;
    removeOld.mockImplementation(() => {
      jest.advanceTimersByTime(5_000);
      return Promise.resolve(++steps === 5 ? 0 : 10_000);
    });
    countOld.mockResolvedValue(40_000);
    await writer.prune();
    expect(log.mock.calls.flat()).toEqual([
      'removing old usage: 20000 rows, 2000 rows/s, about 20 s left',
      'removing old usage: 40000 rows, 2000 rows/s, about 20 s left',
      'removed 40000 rows of usage older than 400 days',
    ]);
  });

  it('until the service stops', async () => {
    const log = jest.spyOn(Logger.prototype, 'log');
    let stopped: Promise<void> | undefined;
    removeOld.mockImplementationOnce(() => {
      stopped = writer.onApplicationShutdown();
      return Promise.resolve(10_000);
    });
    await writer.prune();
    await stopped;
    expect(removeOld).toHaveBeenCalledTimes(1);
    expect(log).toHaveBeenLastCalledWith(
      'removed 10000 rows of usage older than 400 days; the rest is removed after the next start',
    );
  });

  it('and continues after a failure', async () => {
    removeOld.mockRejectedValueOnce(new Error('connection lost'));
    await expect(writer.prune()).resolves.toBeUndefined();
    clock.advance(HOUR_MS);
    await writer.prune();
    expect(removeOld).toHaveBeenCalledTimes(2);
  });
});
