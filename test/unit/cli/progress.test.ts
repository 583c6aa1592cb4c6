import { Progress } from '../../../src/cli/progress.js';

class Output {
  written = '';
  constructor(readonly isTTY: boolean) {}
  write(text: string): boolean {
    this.written += text;
    return true;
  }
}

const ERASE_LINE = '\r\u001b[K';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

describe('Progress on a terminal', () => {
  it('redraws a line with rate and remaining time at a limited rate, and erases it', () => {
    const terminal = new Output(true);
    const progress = new Progress('reading', terminal);
    jest.advanceTimersByTime(2_000);
    terminal.written = '';
    jest.advanceTimersByTime(500);
    progress.update(0.25, 1_000_000);
    progress.update(0.6, 2_000_000);
    progress.stop();
    expect(terminal.written).toBe(
      `${ERASE_LINE}reading  ${'█'.repeat(5)}${'░'.repeat(15)}  25 %  1,000,000 orders  400,000/s  7 s left${ERASE_LINE}`,
    );
  });

  it('fits 80 columns', () => {
    const terminal = new Output(true);
    const progress = new Progress('inserting', terminal);
    jest.advanceTimersByTime(100_000);
    terminal.written = '';
    progress.update(0.01, 99_999_999);
    progress.stop();
    expect(terminal.written.split(ERASE_LINE)[1]?.length).toBeLessThanOrEqual(80);
  });

  it('shows the rate without a bar when the total is unknown', () => {
    const terminal = new Output(true);
    const progress = new Progress('reading', terminal);
    progress.update(undefined, 1_000);
    progress.stop();
    expect(terminal.written).toBe(`${ERASE_LINE}reading  1,000 orders${ERASE_LINE}`);
  });

  it('shows the phase and its duration instead of a full bar', () => {
    const terminal = new Output(true);
    const progress = new Progress('reading', terminal);
    progress.update(1, 1_000);
    terminal.written = '';
    progress.phase('checking ids');
    jest.advanceTimersByTime(2_000);
    progress.stop();
    expect(terminal.written.split(ERASE_LINE)).toEqual([
      '',
      'checking ids  0 s',
      expect.anything(),
      'checking ids  2 s',
      '',
    ]);
  });
});

describe('Progress in a log', () => {
  it('writes a plain line every ten seconds', () => {
    const log = new Output(false);
    const progress = new Progress('reading', log);
    progress.update(0.1, 1_000);
    jest.advanceTimersByTime(9_999);
    expect(log.written).toBe('');
    progress.update(0.5, 5_000);
    jest.advanceTimersByTime(1);
    progress.phase('inserting');
    jest.advanceTimersByTime(10_000);
    progress.stop();
    jest.advanceTimersByTime(60_000);
    expect(log.written).toBe('reading, 50 %, 5,000 orders, 500/s, 10 s left\ninserting, 10 s\n');
  });
});
