import { Logger } from '@nestjs/common';
import type { ApiKeysRepository } from '../../../../src/api-keys/api-keys.repository.js';
import { UsageRecorder, type UsageRow } from '../../../../src/api-keys/usage/usage-recorder.js';
import { UsageWriter } from '../../../../src/api-keys/usage/usage-writer.js';
import type { UsageRepository } from '../../../../src/api-keys/usage/usage.repository.js';
import type { Config } from '../../../../src/config/config.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ManualClock } from '../../../helpers/manual-clock.js';

const HOUR_MS = 3_600_000;

const add = jest.fn<Promise<void>, [readonly UsageRow[], number]>();
const removeOld = jest.fn<Promise<number>, [number, number]>();
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
  add.mockReset().mockResolvedValue();
  removeOld.mockReset().mockResolvedValue(0);
  touch.mockReset().mockResolvedValue();
  clock = new ManualClock();
  metrics = new Metrics();
  recorder = new UsageRecorder(clock, metrics);
  writer = new UsageWriter(
    recorder,
    { add, removeOld } as unknown as UsageRepository,
    { touch } as unknown as ApiKeysRepository,
    clock,
    { usageRetentionDays: 400 } as Config,
    metrics,
  );
});
afterEach(() => {
  jest.useRealTimers();
});

/** The keys of each call, and how often each was admitted. */
const sent = (): string[][] => add.mock.calls.map(([rows]) => rows.map(({ keyId, admitted }) => `${keyId}${admitted}`));
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
    expect(sent()).toEqual([['a2', 'b1']]);
    expect(await total('petstore_usage_rows_written_total')).toBe(2);
    await jest.advanceTimersByTimeAsync(60_000);
    expect(sent()).toHaveLength(1);
  });

  it('what could not be written again, with the later counts, and logs an outage once', async () => {
    const [warn, log] = [lines('warn'), lines('log')];
    add.mockRejectedValueOnce(new Error('connection lost')).mockRejectedValueOnce(new Error('connection lost'));
    recorder.decided('a', 'admitted');
    await writer.flush();
    recorder.decided('a', 'admitted');
    recorder.decided('b', 'admitted');
    await writer.flush();
    await writer.flush();
    await writer.flush();
    expect(sent()).toEqual([['a1'], ['a2', 'b1'], ['a2', 'b1']]);
    expect(await total('petstore_usage_flush_failures_total')).toBe(2);
    expect(warn.mock.calls).toEqual([['cannot write usage, trying again later: connection lost']]);
    expect(log.mock.calls).toEqual([['can write usage again']]);
  });

  it('everything when the service stops, also after a failure, and says what it loses', async () => {
    const warn = lines('warn');
    add.mockRejectedValueOnce(new Error('connection lost'));
    recorder.decided('a', 'admitted');
    const failing = writer.flush();
    recorder.decided('b', 'admitted');
    await writer.onApplicationShutdown();
    await failing;
    expect(sent().at(-1)?.toSorted()).toEqual(['a1', 'b1']);
    add.mockRejectedValue(new Error('connection lost'));
    recorder.decided('b', 'admitted');
    recorder.decided('c', 'banned');
    await writer.onApplicationShutdown();
    expect(warn).toHaveBeenLastCalledWith('lost the usage of 2 requests: it could not be written before the stop');
  });
});

describe('UsageWriter records the last use of a key', () => {
  it('even when its usage cannot be written', async () => {
    add.mockRejectedValue(new Error('relation does not exist'));
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

  it('until the service stops', async () => {
    let stopped: Promise<void> | undefined;
    removeOld.mockImplementationOnce(() => {
      stopped = writer.onApplicationShutdown();
      return Promise.resolve(10_000);
    });
    await writer.prune();
    await stopped;
    expect(removeOld).toHaveBeenCalledTimes(1);
  });

  it('and continues after a failure', async () => {
    removeOld.mockRejectedValueOnce(new Error('connection lost'));
    await expect(writer.prune()).resolves.toBeUndefined();
    clock.advance(HOUR_MS);
    await writer.prune();
    expect(removeOld).toHaveBeenCalledTimes(2);
  });
});
