import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { Connections } from '../../../src/http/connections.js';
import { respondToParserError } from '../../../src/http/parser-errors.js';

/** A connection that records what is written to it. */
class FakeSocket extends Duplex {
  written = '';
  bytesRead = 10;

  override _read(): void {
    // Its client sends nothing more.
  }

  override _write(text: Buffer, _encoding: string, done: () => void): void {
    this.written += text.toString();
    done();
  }
}

const begun: (string | undefined)[] = [];
beforeEach(() => {
  begun.length = 0;
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
});
afterEach(() => {
  jest.useRealTimers();
});

/** @param isBusy whether a response is pending on the connection */
async function respond(code: string, overrides: Partial<FakeSocket> = {}, isBusy = false): Promise<FakeSocket> {
  const socket = Object.assign(new FakeSocket(), overrides);
  const error = Object.assign(new Error('Parse Error: internals'), { code });
  const connections = { isBusy: () => isBusy } as unknown as Connections;
  respondToParserError(error, socket as unknown as Socket, connections, (_req: IncomingMessage, res: ServerResponse) =>
    begun.push(res.constructor.name),
  );
  await new Promise(setImmediate);
  return socket;
}

// `test/server/requests.test.ts` has what clients see of the other errors.
it('responds 408 without details to a request that took too long, and closes the connection', async () => {
  const { written, writableEnded, destroyed } = await respond('ERR_HTTP_REQUEST_TIMEOUT');
  const [head = '', body = ''] = written.split('\r\n\r\n');
  expect(head).toMatch(/^HTTP\/1\.1 408 Request Timeout$/m);
  expect(head).toMatch(/^Connection: close$/m);
  expect(JSON.parse(body)).toMatchObject({ code: 'request_timeout', status: 408 });
  expect(written).not.toContain('internals');
  expect([writableEnded, destroyed, begun]).toEqual([true, false, ['ServerResponse']]);
});

it('leaves the client a second to read the response, whatever it sends meanwhile', async () => {
  const socket = await respond('HPE_INVALID_METHOD');
  const { written } = socket;
  respondToParserError(new Error(), socket as unknown as Socket, {} as Connections, () => undefined);
  jest.advanceTimersByTime(999);
  expect([socket.destroyed, socket.written]).toEqual([false, written]);
  jest.advanceTimersByTime(1);
  expect(socket.destroyed).toBe(true);
});

describe('a connection is closed without a response', () => {
  test.each<[string, string, Partial<FakeSocket>, boolean]>([
    ['when its client has sent nothing', 'ERR_HTTP_REQUEST_TIMEOUT', { bytesRead: 0 }, false],
    ['when its client has reset it', 'ECONNRESET', {}, false],
    ['when it cannot be written to', 'HPE_INVALID_METHOD', { writable: false }, false],
    ['when a response is pending, for which its client would take the error', 'HPE_INVALID_METHOD', {}, true],
  ])('%s', async (_condition, code, overrides, isBusy) => {
    const socket = await respond(code, overrides, isBusy);
    expect([socket.destroyed, socket.written, begun]).toEqual([true, '', []]);
  });
});
