import { connect } from 'node:net';
import { ChunkedBody, LengthBody } from './body-counter.mjs';

const RECEIVE_BYTES = 16_384;
const LENGTH_HEADER = '\r\ncontent-length:';
const CHUNKED_HEADER = '\r\ntransfer-encoding: chunked';

/**
 * One keep-alive HTTP/1.1 connection with one request at a time, reduced to what a load run needs: the status and the
 * end of the response. A response that ends with its connection is an error.
 */
export class Connection {
  /** The beginning of an incomplete response head. */
  #head = '';
  /** The body that has not arrived in full. */
  #body;
  #status = 0;
  busy = false;
  sentAt = 0;

  /**
   * @param {(connection: Connection, status: number) => void} onResponse
   * @param {(connection: Connection, reason: string) => void} onBroken called once when the connection is lost
   */
  constructor(port, onResponse, onBroken) {
    this.onResponse = onResponse;
    this.onBroken = onBroken;
    this.socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      // Reuses one buffer: the client shares the machine with the server.
      onread: {
        buffer: Buffer.allocUnsafe(RECEIVE_BYTES),
        callback: (length, buffer) => this.#receive(buffer, length),
      },
    });
    this.socket.once('error', (error) => this.#broken(error.code ?? error.message));
    this.socket.once('close', () => this.#broken('closed by the server'));
  }

  send(message) {
    this.busy = true;
    this.sentAt = performance.now();
    this.socket.write(message, 'latin1');
  }

  close() {
    this.onBroken = () => undefined;
    this.socket.destroy();
  }

  #receive(buffer, length) {
    if (!this.busy) {
      this.#broken('a response without a request');
      return true;
    }
    if (this.#body !== undefined) {
      this.#takeBody(buffer, 0, length);
      return true;
    }
    const text = this.#head + buffer.latin1Slice(0, length);
    const headEnd = text.indexOf('\r\n\r\n');
    if (headEnd === -1) {
      this.#head = text;
      return true;
    }
    const bodyStart = headEnd + 4 - this.#head.length;
    this.#head = '';
    this.#status = Number(text.slice(9, 12));
    this.#body = this.#bodyOf(text.slice(0, headEnd));
    if (this.#body === undefined) {
      this.#broken(`a ${this.#status} response without a length`);
      return true;
    }
    this.#takeBody(buffer, bodyStart, length);
    return true;
  }

  #bodyOf(head) {
    if (this.#status === 204 || this.#status === 304) {
      return new LengthBody(0);
    }
    const headers = head.toLowerCase();
    if (headers.includes(CHUNKED_HEADER)) {
      return new ChunkedBody();
    }
    const at = headers.indexOf(LENGTH_HEADER);
    return at === -1 ? undefined : new LengthBody(parseInt(head.slice(at + LENGTH_HEADER.length), 10));
  }

  #takeBody(buffer, start, end) {
    if (this.#body.take(buffer, start, end)) {
      this.#body = undefined;
      this.busy = false;
      this.onResponse(this, this.#status);
    }
  }

  #broken(reason) {
    const { onBroken } = this;
    this.close();
    onBroken(this, reason);
  }
}
