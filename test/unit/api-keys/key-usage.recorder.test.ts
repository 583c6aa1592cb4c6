import { Logger } from '@nestjs/common';
import type { ApiKeysRepository } from '../../../src/api-keys/api-keys.repository.js';
import { KeyUsageRecorder } from '../../../src/api-keys/key-usage.recorder.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const touch = jest.fn<Promise<void>, [readonly string[]]>();
let clock: ManualClock;
let recorder: KeyUsageRecorder;

beforeAll(() => {
  Logger.overrideLogger(false);
});
beforeEach(() => {
  jest.useFakeTimers();
  touch.mockReset().mockResolvedValue();
  clock = new ManualClock();
  recorder = new KeyUsageRecorder({ touch } as unknown as ApiKeysRepository, clock);
});
afterEach(() => {
  jest.useRealTimers();
});

describe('KeyUsageRecorder', () => {
  it('writes the uses of one second in one statement, each key once', async () => {
    for (const id of ['a', 'b', 'a', 'c', 'b']) {
      recorder.used(id);
    }
    await jest.advanceTimersByTimeAsync(999);
    expect(touch).not.toHaveBeenCalled();
    await jest.advanceTimersByTimeAsync(1);
    expect(touch.mock.calls).toEqual([[['a', 'b', 'c']]]);
  });

  it('writes a key at most once a minute', async () => {
    recorder.used('a');
    await recorder.flush();
    clock.advance(59_999);
    recorder.used('a');
    recorder.used('b');
    await recorder.flush();
    clock.advance(1);
    recorder.used('a');
    recorder.used('b');
    await recorder.flush();
    expect(touch.mock.calls).toEqual([[['a']], [['b']], [['a']]]);
  });

  it('writes pending uses when the service stops', async () => {
    recorder.used('a');
    await recorder.beforeApplicationShutdown();
    expect(touch.mock.calls).toEqual([[['a']]]);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(touch).toHaveBeenCalledTimes(1);
  });

  it('executes no statement when no key was used', async () => {
    await recorder.flush();
    await recorder.beforeApplicationShutdown();
    expect(touch).not.toHaveBeenCalled();
  });

  it('ignores a failed write and writes the next use after a minute', async () => {
    touch.mockRejectedValueOnce(new Error('the database is unavailable'));
    recorder.used('a');
    await expect(recorder.flush()).resolves.toBeUndefined();
    clock.advance(60_000);
    recorder.used('a');
    await recorder.flush();
    expect(touch).toHaveBeenCalledTimes(2);
  });
});
