import { Logger } from '@nestjs/common';
import type { UsageRepository } from '../../../src/usage/usage.repository.js';
import { NO_USAGE, type UsageRow } from '../../../src/usage/usage-counts.js';
import { ROWS_MAX, ROWS_PER_STATEMENT, UsageRecorder } from '../../../src/usage/usage-recorder.js';
import { loadConfig } from '../../../src/config/config.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const START_MS = Date.UTC(2026, 10, 21, 23, 59, 50);
const REJECTED = Object.assign(new Error('failed'), { code: '42P01' });

let clock: ManualClock;
let metrics: Metrics;
let repository: Record<'ping' | 'touch' | 'addUsage' | 'removeOldUsage', jest.Mock>;
let recorder: UsageRecorder;
beforeEach(() => {
  clock = new ManualClock(START_MS);
  metrics = new Metrics();
  const done = (): jest.Mock => jest.fn(() => Promise.resolve());
  repository = { ping: done(), touch: done(), addUsage: done(), removeOldUsage: done() };
  const config = loadConfig({ DATABASE_URL: 'postgresql://localhost/petstore' });
  recorder = new UsageRecorder(repository as unknown as UsageRepository, clock, config, metrics);
});

const value = async (name: string): Promise<number | undefined> =>
  (await metrics.registry.getSingleMetric(name)?.get())?.values[0]?.value;

/** What each attempt to write has sent. */
const attempts = (): [rows: UsageRow[], nowMs: number][] => repository.addUsage.mock.calls as [UsageRow[], number][];

describe('UsageRecorder', () => {
  it('adds what could not be written to what was counted since, on the day on which it was counted', async () => {
    recorder.add('a', { admitted: 1 });
    recorder.add('a', { lists: 1, listBytes: 10 });
    repository.addUsage.mockImplementationOnce(() => {
      clock.advance(1);
      recorder.add('a', { admitted: 1 });
      clock.advance(10_000);
      recorder.add('a', { admitted: 1 });
      return Promise.reject(REJECTED);
    });
    await recorder.flush();
    await recorder.flush();
    expect(attempts()[1]?.[0]).toEqual([
      { keyId: 'a', sinceMs: START_MS, ...NO_USAGE, admitted: 2, lists: 1, listBytes: 10 },
      { keyId: 'a', sinceMs: START_MS + 10_001, ...NO_USAGE, admitted: 1 },
    ]);
  });

  it('holds a bounded number of rows, and counts the requests that it loses', async () => {
    recorder.add('first', { admitted: 1 });
    recorder.add('first', { banned: 1 });
    repository.addUsage.mockImplementationOnce(() => {
      for (let id = 0; id < ROWS_MAX + 3; id++) {
        recorder.add(String(id), { admitted: 1 });
      }
      recorder.add('0', { rejected: 1 });
      return Promise.reject(REJECTED);
    });
    await recorder.flush();
    expect(await value('petstore_usage_unflushed_rows')).toBe(ROWS_MAX);
    expect(await value('petstore_usage_lost_requests_total')).toBe(5);
    await recorder.flush();
    expect(attempts()[1]?.[0][0]).toMatchObject({ keyId: '0', admitted: 1, rejected: 1 });
    expect(await value('petstore_usage_unflushed_rows')).toBe(0);
  });

  /** @returns the counts that each attempt has sent, when the first one fails with an error, and the requests that are lost */
  async function writesAfter(
    error: Error,
    failing: 'ping' | 'addUsage' = 'addUsage',
  ): Promise<{ sent: number[]; lost: number | undefined }> {
    repository[failing].mockRejectedValueOnce(error);
    recorder.add('one', { admitted: 1 });
    await recorder.flush();
    recorder.add('one', { admitted: 1 });
    await recorder.flush();
    const sent = attempts().map(([rows]) => rows.reduce((sum, { admitted }) => sum + admitted, 0));
    return { sent, lost: await value('petstore_usage_lost_requests_total') };
  }

  it.each([
    ['the server has rejected the statement', { code: '42P01' }],
    ['the statement has timed out in the server', { code: '57014' }],
    ['no connection could be opened', { code: 'ECONNREFUSED' }],
  ])('writes counts again when %s', async (_what, fields) => {
    expect(await writesAfter(Object.assign(new Error('failed'), fields))).toEqual({ sent: [1, 2], lost: 0 });
  });

  it('keeps counts while the database does not respond', async () => {
    expect(await writesAfter(new Error('Connection terminated'), 'ping')).toEqual({ sent: [2], lost: 0 });
  });

  it.each([
    ['the connection was lost', {}],
    ['the connection was reset', { code: 'ECONNRESET' }],
    ['the server has ended the session', { code: '57P01' }],
  ])('drops counts that may have been written, because %s', async (_what, fields) => {
    expect(await writesAfter(Object.assign(new Error('failed'), fields))).toEqual({ sent: [1, 1], lost: 1 });
  });

  it('does not wait for a second statement when the first has failed', async () => {
    repository.addUsage.mockRejectedValueOnce(new Error('no response'));
    recorder.add('one', { admitted: 1 });
    await recorder.flush();
    expect(repository.touch).not.toHaveBeenCalled();
  });

  it('says what a stop has lost, also when the requests themselves were written before', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockReturnValue();
    repository.addUsage.mockRejectedValueOnce(REJECTED);
    recorder.add('one', { lists: 1, listBytes: 10 });
    recorder.add('other', { cancels: 2 });
    await recorder.onApplicationShutdown();
    const lost = 'lost the usage of 0 requests, 1 lists and 2 cancels: it could not be written before the stop';
    expect(warn).toHaveBeenLastCalledWith(lost);
  });

  it('keeps what is left when a statement fails, and writes nothing twice', async () => {
    for (let id = 0; id < 2.5 * ROWS_PER_STATEMENT; id++) {
      recorder.add(String(id), { admitted: 1 });
    }
    repository.addUsage.mockResolvedValueOnce(undefined).mockRejectedValueOnce(REJECTED);
    await recorder.flush();
    expect(await value('petstore_usage_unflushed_rows')).toBe(1.5 * ROWS_PER_STATEMENT);
    await recorder.flush();
    const written = attempts().flatMap(([rows], attempt) => (attempt === 1 ? [] : rows));
    expect(new Set(written.map(({ keyId }) => keyId)).size).toBe(2.5 * ROWS_PER_STATEMENT);
    expect(written.length).toBe(2.5 * ROWS_PER_STATEMENT);
  });

  it('removes rows of days that are too old once an hour, also when the clock is set back by a year', async () => {
    jest.useFakeTimers();
    try {
      recorder.onApplicationBootstrap();
      await jest.advanceTimersByTimeAsync(60_000);
      expect(repository.removeOldUsage.mock.calls).toEqual([[400, 100_000]]);
      clock.advance(-365 * 86_400_000);
      await jest.advanceTimersByTimeAsync(3_600_000);
      expect(repository.removeOldUsage).toHaveBeenCalledTimes(2);
      await recorder.onApplicationShutdown();
    } finally {
      jest.useRealTimers();
    }
  });
});
