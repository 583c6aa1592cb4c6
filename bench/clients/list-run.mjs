import { once } from 'node:events';
import { connect } from 'node:net';
import { ChunkedBody, LengthBody } from './body-counter.mjs';

const RECEIVE_BYTES = 262_144;

/**
 * Reads the list with several clients at once, counts its bytes and discards them.
 * @returns time until the last client has the whole list (connections are open before), time to first byte, body sizes
 */
export async function listRun({ port, key, readers }) {
  const lists = Array.from({ length: readers }, () => new ListReader(port));
  await Promise.all(lists.map((list) => list.connected));
  const startedAt = performance.now();
  const ends = await Promise.all(lists.map((list) => list.read(key)));
  return {
    wallMs: Math.max(...ends) - startedAt,
    firstByteMs: Math.max(...lists.map((list) => list.firstByteAt)) - startedAt,
    bodyBytes: lists.map((list) => list.body.bytes),
  };
}

class ListReader {
  #head = '';
  #resolve;
  #reject;
  firstByteAt = 0;
  body = undefined;

  constructor(port) {
    this.socket = connect({
      host: '127.0.0.1',
      port,
      onread: {
        buffer: Buffer.allocUnsafe(RECEIVE_BYTES),
        callback: (length, buffer) => {
          this.#receive(buffer, length);
          return true;
        },
      },
    });
    this.connected = once(this.socket, 'connect');
  }

  /** Resolves with the time at which the list was complete. */
  read(key) {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.socket.once('error', reject);
      this.socket.once('close', () => reject(new Error('The list was interrupted.')));
      this.socket.write(`GET /v1/store/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    });
  }

  #receive(buffer, length) {
    if (this.firstByteAt === 0) {
      this.firstByteAt = performance.now();
    }
    let start = 0;
    if (this.body === undefined) {
      const text = this.#head + buffer.latin1Slice(0, length);
      const headEnd = text.indexOf('\r\n\r\n');
      if (headEnd === -1) {
        this.#head = text;
        return;
      }
      start = headEnd + 4 - this.#head.length;
      if (!this.#takeHead(text.slice(0, headEnd))) {
        return;
      }
    }
    if (this.body.take(buffer, start, length)) {
      const endedAt = performance.now();
      this.socket.destroy();
      this.#resolve(endedAt);
    }
  }

  #takeHead(head) {
    if (!head.startsWith('HTTP/1.1 200 ')) {
      this.#reject(new Error(`The list has status ${head.slice(9, 12)}.`));
      return false;
    }
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    this.body = length === undefined ? new ChunkedBody() : new LengthBody(Number(length));
    return true;
  }
}
