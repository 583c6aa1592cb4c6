import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { listen } from './listen.js';

/** One connection through the proxy. */
interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

/** A TCP proxy that simulates network failures. */
export class TcpProxy {
  /** The connections that fail. */
  readonly #pairs = new Set<Pair>();
  #state: 'forwarding' | 'stalled' | 'rejecting' = 'forwarding';
  #interruption: { readonly text: string; readonly work: () => Promise<void> } | undefined;

  private constructor(
    private readonly listener: Server,
    private readonly port: number,
    private target: URL,
  ) {}

  /**
   * @param url of the upstream server
   * @param applicationName which connections to PostgreSQL fail; all others are forwarded whatever happens
   */
  static async start(url: string, applicationName?: string): Promise<TcpProxy> {
    const listener = createServer();
    const proxy = new TcpProxy(listener, await listen(listener), new URL(url));
    listener.on('connection', (client) => {
      client.on('error', () => undefined);
      // The first message to PostgreSQL names the application.
      client.once('data', (startup: Buffer) => {
        client.pause();
        client.unshift(startup);
        const fails = applicationName === undefined || startup.includes(`application_name\0${applicationName}\0`);
        proxy.#accept(client, fails);
      });
    });
    return proxy;
  }

  /** @returns the URL with the proxy's host and port */
  urlFor(url: string): string {
    return Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(this.port) }).href;
  }

  /** Forwards new connections to another server, such as one restarted on a new port. */
  retarget(url: string): void {
    this.target = new URL(url);
  }

  /** Bytes received on the open connections, forwarded or held. */
  get bytesFromClients(): number {
    return Array.from(this.#pairs, ({ client }) => client.bytesRead).reduce((sum, bytes) => sum + bytes, 0);
  }

  /** Closes every connection; new ones are forwarded. */
  closeConnections(): void {
    this.#pairs.forEach(({ client }) => client.destroy());
  }

  /** Closes every connection, and new ones immediately, like a server that is shutting down. */
  rejectConnections(): void {
    this.#state = 'rejecting';
    this.closeConnections();
  }

  /** Forwards nothing and closes nothing, on existing and new connections, like a network that drops packets. */
  stall(): void {
    this.#state = 'stalled';
    for (const { client, server } of this.#pairs) {
      client.unpipe();
      server.unpipe();
    }
  }

  /** Returns to normal and forwards the held data. */
  restore(): void {
    if (this.#state === 'stalled') {
      this.#pairs.forEach(join);
    }
    this.#state = 'forwarding';
  }

  /**
   * Does some work after the next client message with this text has its response, before that is forwarded.
   * @returns when it is done
   */
  after(text: string, work: () => Promise<unknown>): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = async (): Promise<void> => {
        await work().then(() => {
          resolve();
        }, reject);
      };
      this.#interruption = { text, work: settle };
    });
  }

  async close(): Promise<void> {
    this.rejectConnections();
    await new Promise((resolve) => this.listener.close(resolve));
  }

  #accept(client: Socket, fails: boolean): void {
    if (fails && this.#state === 'rejecting') {
      client.destroy();
      return;
    }
    const pair: Pair = { client, server: connect(Number(this.target.port), this.target.hostname) };
    pair.server.on('error', () => undefined);
    pair.server.on('close', () => client.destroy());
    client.on('close', () => {
      pair.server.destroy();
      this.#pairs.delete(pair);
    });
    if (fails) {
      this.#pairs.add(pair);
      // Called before the same bytes are forwarded.
      client.on('data', (bytes: Buffer) => void this.#interrupt(pair, bytes));
    }
    if (!fails || this.#state === 'forwarding') {
      join(pair);
    }
  }

  async #interrupt({ client, server }: Pair, bytes: Buffer): Promise<void> {
    const interruption = this.#interruption;
    if (interruption !== undefined && bytes.includes(interruption.text)) {
      this.#interruption = undefined;
      server.unpipe(client);
      await once(server, 'readable');
      await interruption.work();
      server.pipe(client);
    }
  }
}

/** With backpressure: a client that does not read must block PostgreSQL as it would without the proxy. */
function join({ client, server }: Pair): void {
  client.pipe(server).pipe(client);
}
