import { connect } from 'node:net';

const RECEIVE_BYTES = 16_384;
const LENGTH_HEADER = '\r\ncontent-length:';

/**
 * One keep-alive HTTP/1.1 connection with one request at a time, reduced to what a load run needs: the status, and where
 * the answer ends. Anything but a short answer of known length is an error.
 */
export class Connection {
  /** The beginning of an answer whose head has not arrived as a whole. */
  #head = '';
  /** Bytes of a body that are still to come. */
  #bodyLeft = 0;
  #status = 0;
  busy = false;
  sentAt = 0;

  /**
   * @param {(connection: Connection, status: number) => void} onAnswer
   * @param {(connection: Connection, reason: string) => void} onBroken told once, of a connection lost with or without a request
   */
  constructor(port, onAnswer, onBroken) {
    this.onAnswer = onAnswer;
    this.onBroken = onBroken;
    this.socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      // Reads into the same memory again and again: the client shares the machine with what it measures.
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
      this.#broken('an answer without a request');
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
      this.#broken(`answered ${this.#status} without a length`);
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
      this.#broken('more bytes than announced');
    } else if (this.#bodyLeft === 0) {
      this.busy = false;
      this.onAnswer(this, this.#status);
    }
  }

  #broken(reason) {
    const { onBroken } = this;
    this.close();
    onBroken(this, reason);
  }
}
