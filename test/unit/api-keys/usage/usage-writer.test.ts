import { Logger } from '@nestjs/common';
import type { ApiKeysRepository } from '../../../../src/api-keys/api-keys.repository.js';
import { UsageRecorder } from '../../../../src/api-keys/usage/usage-recorder.js';
import { UsageWriter } from '../../../../src/api-keys/usage/usage-writer.js';
import { loadConfig } from '../../../../src/config/config.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ManualClock } from '../../../helpers/manual-clock.js';

function writerTo(
  statements: Partial<ApiKeysRepository>,
  clock = new ManualClock(),
): { writer: UsageWriter; recorder: UsageRecorder; metrics: Metrics } {
  const metrics = new Metrics();
  const recorder = new UsageRecorder(clock, metrics);
  const repository = {
    ping: () => Promise.resolve(),
    touch: () => Promise.resolve(),
    ...statements,
  } as ApiKeysRepository;
  const config = loadConfig({ DATABASE_URL: 'postgresql://localhost/petstore' });
  return { metrics, recorder, writer: new UsageWriter(recorder, repository, clock, config, metrics) };
}

/** @returns the counts that each attempt has sent, when the first one fails with an error, and the requests that are lost */
async function writesAfter(
  error: Error,
  failing: 'ping' | 'addUsage' = 'addUsage',
): Promise<{ sent: number[]; lost: number | undefined }> {
  const sent: number[] = [];
  const calls = { ping: 0, addUsage: 0 };
  const respond = (call: 'ping' | 'addUsage'): Promise<void> =>
    calls[call]++ === 0 && call === failing ? Promise.reject(error) : Promise.resolve();
  const addUsage: ApiKeysRepository['addUsage'] = (rows) => {
    sent.push(rows.reduce((sum, { admitted }) => sum + admitted, 0));
    return respond('addUsage');
  };
  const { writer, recorder, metrics } = writerTo({ ping: () => respond('ping'), addUsage });
  recorder.add('one', { admitted: 1 });
  await writer.flush();
  recorder.add('one', { admitted: 1 });
  await writer.flush();
  return { sent, lost: (await metrics.usageLost.get()).values[0]?.value };
}

describe('the usage writer', () => {
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
    const touch = jest.fn(() => Promise.resolve());
    const { writer, recorder } = writerTo({ addUsage: () => Promise.reject(new Error('no response')), touch });
    recorder.add('one', { admitted: 1 });
    await writer.flush();
    expect(touch).not.toHaveBeenCalled();
  });

  it('says how many requests a stop has lost', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockReturnValue();
    const rejected = Object.assign(new Error('failed'), { code: '42P01' });
    const { writer, recorder } = writerTo({ addUsage: () => Promise.reject(rejected) });
    recorder.add('one', { admitted: 1 });
    recorder.add('one', { rejected: 1 });
    await writer.onApplicationShutdown();
    expect(warn).toHaveBeenLastCalledWith('lost the usage of 2 requests: it could not be written before the stop');
    warn.mockRestore();
  });

  it('removes rows of days that are too old once an hour', async () => {
    const clock = new ManualClock();
    const removeOldUsage = jest.fn(() => Promise.resolve(7));
    const { writer } = writerTo({ removeOldUsage }, clock);
    await writer.prune();
    await writer.prune();
    expect(removeOldUsage.mock.calls).toEqual([[400, 100_000]]);
    clock.advance(3_600_000);
    await writer.prune();
    expect(removeOldUsage).toHaveBeenCalledTimes(2);
  });
});
