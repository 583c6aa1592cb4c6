import { Duplex } from 'node:stream';
import type { Connection } from 'pg';
import { CopyOut, type RowCollector } from '../../../src/database/copy-out.js';

/** Makes a chunk of every two rows. */
class Pairs implements RowCollector<string> {
  #rows: string[] = [];

  add(row: Buffer): string | undefined {
    const text = row.toString();
    if (text === 'bad\n') {
      throw new TypeError('a bad row');
    }
    const ended = this.#rows.length === 2 ? this.end() : undefined;
    this.#rows.push(text);
    return ended;
  }

  end(): string | undefined {
    const rows = this.#rows.splice(0);
    return rows.length === 0 ? undefined : rows.join('');
  }
}

let stream: Duplex;
let queries: string[];
let copy: CopyOut<string>;

beforeEach(() => {
  stream = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
  queries = [];
  copy = new CopyOut('COPY orders TO STDOUT', new Pairs());
  copy.submit({ stream, query: (text: string) => queries.push(text) } as unknown as Connection);
});

/** What pg calls for rows. Their bytes are reused afterwards. */
function receive(...rows: string[]): void {
  for (const row of rows) {
    const chunk = Buffer.from(`${row}\n`);
    copy.handleCopyData({ chunk });
    chunk.fill('x');
  }
}

function complete(): void {
  copy.handleCommandComplete();
  copy.handleReadyForQuery();
}

async function readAll(): Promise<string[]> {
  const chunks: string[] = [];
  for await (const chunk of copy as AsyncIterable<string>) {
    chunks.push(chunk);
  }
  return chunks;
}

describe('CopyOut', () => {
  it('sends the statement, and returns the chunks of its collector, the last one at the end', async () => {
    const reading = readAll();
    receive('1', '2', '3');
    receive('4', '5');
    complete();
    expect(await reading).toEqual(['1\n2\n', '3\n4\n', '5\n']);
    expect([queries, copy.rows]).toEqual([['COPY orders TO STDOUT'], 5]);
  });

  it('returns nothing for a statement without rows', async () => {
    complete();
    expect(await readAll()).toEqual([]);
  });

  it('pauses the socket while chunks wait, loses no row that arrives meanwhile, and resumes it for them and at the end', async () => {
    receive('1', '2', '3', '4', '5', '6', '7');
    expect(stream.isPaused()).toBe(true);
    receive('8', '9');
    const chunks = copy[Symbol.asyncIterator]() as AsyncIterator<string, undefined>;
    expect((await chunks.next()).value).toBe('1\n2\n');
    expect((await chunks.next()).value).toBe('3\n4\n');
    expect((await chunks.next()).value).toBe('5\n6\n');
    await new Promise(setImmediate);
    expect(stream.isPaused()).toBe(false);
    stream.pause();
    complete();
    expect(stream.isPaused()).toBe(false);
    expect((await chunks.next()).value).toBe('7\n8\n');
    expect((await chunks.next()).value).toBe('9\n');
    expect((await chunks.next()).done).toBe(true);
  });

  it('fails with the error of the collector, and ignores what follows', async () => {
    const reading = readAll();
    receive('1', 'bad', '2', '3', '4');
    complete();
    await expect(reading).rejects.toThrow('a bad row');
  });

  it('fails with an error of the server, and when the connection is lost', async () => {
    const reading = readAll();
    receive('1');
    copy.handleError(new Error('canceling statement'));
    copy.handleReadyForQuery();
    await expect(reading).rejects.toThrow('canceling statement');
  });
});
