import { once } from 'node:events';
import { connect } from 'node:net';

const RECEIVE_BYTES = 262_144;
const LAST_CHUNK = '0\r\n\r\n';

/**
 * One keep-alive HTTP/1.1 connection with one request at a time, reduced to what a run needs: the status and the end of the response. Node's client would take as much CPU time as the server. A response that ends with its connection is an error.
 */
export class Connection {
  /** The beginning of an incomplete response head. */
  #head = '';
  /** The length of the body; undefined for a chunked one, whose end is recognized by its last bytes. */
  #length;
  #tail = '';
  #bytes = 0;
  #status = 0;
  #inBody = false;
  #pending;

  static async open(port) {
    const connection = new Connection(port);
    await once(connection.socket, 'connect');
    return connection;
  }

  constructor(port) {
    this.socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      // Reuses one buffer: the client shares the machine with the server.
      onread: {
        buffer: Buffer.allocUnsafe(RECEIVE_BYTES),
        callback: (length, buffer) => {
          this.#receive(buffer, length);
          return true;
        },
      },
    });
    this.socket.once('error', (error) => this.#pending?.reject(error));
    this.socket.once('close', () => this.#pending?.reject(new Error('The server has closed a connection.')));
  }

  /** @param {string} message @returns {Promise<number>} the status, at the end of the response */
  send(message) {
    this.#bytes = 0;
    this.#tail = '';
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject };
      this.socket.write(message, 'latin1');
    });
  }

  close() {
    this.#pending = undefined;
    this.socket.destroy();
  }

  #receive(buffer, length) {
    let start = 0;
    if (!this.#inBody) {
      const text = this.#head + buffer.latin1Slice(0, length);
      const headEnd = text.indexOf('\r\n\r\n');
      if (headEnd === -1) {
        this.#head = text;
        return;
      }
      start = headEnd + 4 - this.#head.length;
      this.#takeHead(text.slice(0, headEnd));
    }
    this.#bytes += length - start;
    if (this.#length === undefined) {
      this.#tail = (this.#tail + buffer.latin1Slice(Math.max(start, length - LAST_CHUNK.length), length)).slice(
        -LAST_CHUNK.length,
      );
    }
    if (this.#length === undefined ? this.#tail === LAST_CHUNK : this.#bytes >= this.#length) {
      this.#inBody = false;
      this.#pending?.resolve(this.#status);
    }
  }

  #takeHead(head) {
    this.#head = '';
    this.#inBody = true;
    this.#status = Number(head.slice(9, 12));
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    this.#length = [204, 304].includes(this.#status) ? 0 : length === undefined ? undefined : Number(length);
  }
}
