import { Duplex } from 'node:stream';
import type { Connection } from 'pg';
import { type CopiedRows, CopyOut, HEADER_BYTES } from '../../../src/database/copy-out.js';

const ROWS = Array.from({ length: 40 }, (_, index) => `${index}\t${'x'.repeat(index % 7)}\n`);
const END = '--\n';
const COPY_OUT_RESPONSE = message('H', '\0\0\0');
const NOTICE = message('N', 'SNOTICE\0');
const COPY_DONE = message('c', '');
const READY = message('Z', 'T');
const COMPLETE = Buffer.concat([message('C', 'COPY 40\0'), READY]);
const RESPONSE = Buffer.concat([
  COPY_OUT_RESPONSE,
  ...ROWS.slice(0, 20).map((row) => message('d', row)),
  NOTICE,
  ...ROWS.slice(20).map((row) => message('d', row)),
  COPY_DONE,
  COMPLETE,
]);

/** A connection of pg whose socket receives what a test writes; `pgReceived` is what pg's own parser sees. */
class FakeConnection {
  readonly stream = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
  readonly queries: string[] = [];
  pgReceived = Buffer.alloc(0);

  constructor() {
    this.stream.on('data', (bytes: Buffer) => (this.pgReceived = Buffer.concat([this.pgReceived, bytes])));
  }

  query(text: string): void {
    this.queries.push(text);
  }
}

let connection: FakeConnection;
let copy: CopyOut;

beforeEach(() => {
  connection = new FakeConnection();
  copy = new CopyOut(['COPY orders TO STDOUT']);
  copy.submit(connection as unknown as Connection);
});

function message(type: string, payload: string): Buffer {
  const bytes = Buffer.from(`${type}....${payload}`);
  bytes.writeUInt32BE(bytes.length - 1, 1);
  return bytes;
}

/** What is in whole messages. */
function payloadsOf(messages: Buffer): string {
  let text = '';
  for (let from = 0, end: number; from < messages.length; from = end) {
    end = from + 1 + messages.readUInt32BE(from + 1);
    text += messages.toString('latin1', from + HEADER_BYTES, end);
  }
  return text;
}

/** Reads to the end, with a line where a statement ends; pg announces the end of all when it sees it. */
async function readAll(): Promise<string> {
  let text = '';
  const chunks = copy[Symbol.asyncIterator]() as AsyncIterator<CopiedRows, undefined>;
  for (;;) {
    if (connection.pgReceived.subarray(-READY.length).equals(READY)) {
      copy.handleReadyForQuery();
    }
    const { value } = await chunks.next();
    if (value === undefined) {
      return text;
    }
    text += value.rows.length === 0 ? END : payloadsOf(value.rows);
  }
}

describe('CopyOut', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 100, 10_000])(
    'returns the rows of several statements without their messages, however they arrive: in pieces of %i bytes',
    async (size) => {
      connection = new FakeConnection();
      copy = new CopyOut(['COPY a TO STDOUT', 'COPY b TO STDOUT', 'COPY c TO STDOUT']);
      copy.submit(connection as unknown as Connection);
      const ended = Buffer.concat([COPY_DONE, message('C', 'COPY 40\0')]);
      const bytes = Buffer.concat([
        ...[COPY_OUT_RESPONSE, ...ROWS.map((row) => message('d', row)), NOTICE, ended],
        ...[COPY_OUT_RESPONSE, ended],
        ...[COPY_OUT_RESPONSE, message('d', ROWS[0]!), COPY_DONE, COMPLETE],
      ]);
      const reading = readAll();
      for (let from = 0; from < bytes.length; from += size) {
        connection.stream.push(Buffer.from(bytes.subarray(from, from + size)));
        await new Promise(setImmediate);
      }
      copy.handleReadyForQuery();
      expect(await reading).toBe(`${ROWS.join('')}${END}${END}${ROWS[0]!}${END}`);
      expect(connection.queries).toEqual(['COPY a TO STDOUT; COPY b TO STDOUT; COPY c TO STDOUT']);
    },
  );

  it('leaves what follows the statements to pg', async () => {
    connection.stream.push(Buffer.from(RESPONSE));
    await new Promise(setImmediate);
    expect(connection.pgReceived.equals(READY)).toBe(true);
    connection.stream.push(Buffer.from('next'));
    await new Promise(setImmediate);
    expect(connection.pgReceived.subarray(-4).toString()).toBe('next');
    copy.handleReadyForQuery();
    expect(await readAll()).toBe(ROWS.join('') + END);
  });

  it('leaves an error of the server to pg, and fails with the error that pg makes of it', async () => {
    const error = message('E', 'SERROR\0C57014\0\0');
    const reading = readAll();
    connection.stream.push(Buffer.concat([COPY_OUT_RESPONSE, message('d', ROWS[0]!), error]));
    await new Promise(setImmediate);
    expect(connection.pgReceived.equals(error)).toBe(true);
    copy.handleError(new Error('canceling statement'));
    await expect(reading).rejects.toThrow('canceling statement');
  });

  it.each([
    ['a type that cannot occur', message('x', 'y')],
    ['a length below its own', Buffer.from('d\0\0\0\x03')],
  ])('closes the connection after a message with %s', async (_what, bytes) => {
    const failed = new Promise((resolve) => connection.stream.once('error', resolve));
    connection.stream.push(bytes);
    expect(await failed).toEqual(new Error('Unexpected message from PostgreSQL during COPY.'));
  });

  it('fails when the connection is lost', async () => {
    const reading = readAll();
    copy.handleError(new Error('Connection terminated unexpectedly'));
    await expect(reading).rejects.toThrow('Connection terminated unexpectedly');
  });

  it('reads no more from the socket while several chunks wait for the consumer', async () => {
    for (let count = 0; count < 100; count++) {
      connection.stream.push(message('d', ROWS[0]!));
      await new Promise(setImmediate);
    }
    expect(connection.stream.isPaused()).toBe(true);
    expect(connection.stream.readableLength).toBeGreaterThan(90 * ROWS[0]!.length);
    const reading = readAll();
    connection.stream.push(Buffer.concat([COPY_DONE, COMPLETE]));
    await new Promise(setImmediate);
    copy.handleReadyForQuery();
    expect(await reading).toBe(ROWS[0]!.repeat(100) + END);
  });
});
