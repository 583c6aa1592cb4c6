import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { waitFor } from './wait-for.js';
import { parseResponses, type WireResponse } from './wire.js';

/** A connection that collects what it receives, also an incomplete response, until the test or the service closes it. */
export class RawClient {
  readonly #received: Buffer[] = [];
  #bytes = 0;
  closed = false;

  private constructor(readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.#received.push(chunk);
      this.#bytes += chunk.length;
    });
    socket.on('error', () => undefined);
    socket.on('close', () => (this.closed = true));
  }

  /** @param localAddress of the client, to count it against an address of its own */
  static async open(port: number, text: string | Buffer = '', localAddress = '127.0.0.1'): Promise<RawClient> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    const client = new RawClient(socket);
    await once(socket, 'connect');
    if (text.length > 0) {
      socket.write(text);
    }
    return client;
  }

  get received(): Buffer {
    return Buffer.concat(this.#received);
  }

  /** The number of bytes received. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the last bytes received are these. Quick, however much was received. */
  endsWith(text: string): boolean {
    return Buffer.concat(this.#received.slice(-text.length)).toString('latin1').endsWith(text);
  }

  /** The complete responses. */
  get responses(): WireResponse[] {
    return parseResponses(this.received, this.closed, []);
  }

  /** Waits for the first bytes of the response, and reads no more until `socket.resume()`. */
  async stall(): Promise<void> {
    await once(this.socket, 'data');
    this.socket.pause();
  }

  async untilClosed(): Promise<void> {
    await waitFor(() => this.closed, 'the service closes the connection');
  }
}
