import { ProgressBar } from '../../../src/cli/progress-bar.js';

class Terminal {
  written = '';
  constructor(readonly isTTY: boolean) {}
  write(text: string): boolean {
    this.written += text;
    return true;
  }
}

describe('ProgressBar', () => {
  it('redraws its line at a limited rate, and erases it', () => {
    const terminal = new Terminal(true);
    const bar = new ProgressBar(terminal);
    bar.update(0.5, 1_234_567);
    bar.update(0.6, 2_000_000);
    bar.clear();
    expect(terminal.written).toBe(`\r\u001b[K${'█'.repeat(15)}${'░'.repeat(15)}  50 %  1,234,567 orders\r\u001b[K`);
  });

  it('shows a count without a bar when the total is unknown', () => {
    const terminal = new Terminal(true);
    new ProgressBar(terminal).update(undefined, 1_000);
    expect(terminal.written).toBe('\r\u001b[K1,000 orders');
  });

  it('writes nothing to a file or a pipe', () => {
    const pipe = new Terminal(false);
    const bar = new ProgressBar(pipe);
    bar.update(0.5, 1_000);
    bar.clear();
    expect(pipe.written).toBe('');
  });
});
