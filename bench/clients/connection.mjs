import { connect } from 'node:net';

const RECEIVE_BYTES = 16_384;
const LENGTH_HEADER = '\r\ncontent-length:';

/**
 * One keep-alive HTTP/1.1 connection with one request at a time, reduced to what a load run needs: the status and the
 * end of the response. Anything but a short response of known length is an error.
 */
export class Connection {
  /** The beginning of an incomplete response head. */
  #head = '';
  /** Bytes of the body that have not arrived. */
  #bodyLeft = 0;
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
    if (this.#bodyLeft > 0) {
      this.#takeBody(length);
      return true;
    }
    const text = this.#head + buffer.latin1Slice(0, length);
    const headEnd = text.indexOf('\r\n\r\n');
    if (headEnd === -1) {
      this.#head = text;
      return true;
    }
    this.#head = '';
    this.#status = Number(text.slice(9, 12));
    const bodyLength = this.#bodyLengthOf(text.slice(0, headEnd));
    if (bodyLength === undefined) {
      this.#broken(`a ${this.#status} response without a length`);
      return true;
    }
    this.#bodyLeft = bodyLength;
    this.#takeBody(text.length - headEnd - 4);
    return true;
  }

  #bodyLengthOf(head) {
    if (this.#status === 204 || this.#status === 304) {
      return 0;
    }
    const at = head.toLowerCase().indexOf(LENGTH_HEADER);
    return at === -1 ? undefined : parseInt(head.slice(at + LENGTH_HEADER.length), 10);
  }

  #takeBody(length) {
    this.#bodyLeft -= length;
    if (this.#bodyLeft < 0) {
      this.#broken('more bytes than Content-Length');
    } else if (this.#bodyLeft === 0) {
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
