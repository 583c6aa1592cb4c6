import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** One connection through the proxy. */
interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** Client data received while the proxy is stalled. */
  readonly held: Buffer[];
}

/** Work at the next message that contains a text, such as the name of a statement. */
interface Interruption {
  readonly text: string;
  readonly when: 'before' | 'after';
  readonly work: () => Promise<void>;
}

/** A TCP proxy that simulates network failures. */
export class TcpProxy {
  readonly #pairs = new Set<Pair>();
  /** Clients whose server connection was dropped silently. */
  readonly #dropped = new Set<Socket>();
  /** Clients whose connections do not fail. */
  readonly #spared = new Set<Socket>();
  readonly #interruptions = new Set<Interruption>();
  #rejecting = false;
  #stalled = false;
  #bytesFromClients = 0;

  private constructor(
    private readonly listener: Server,
    private target: { readonly host: string; readonly port: number },
    private readonly applicationName: string | undefined,
  ) {}

  /**
   * @param url of the upstream server
   * @param applicationName which connections to PostgreSQL fail; all others are forwarded whatever happens
   */
  static async start(url: string, applicationName?: string): Promise<TcpProxy> {
    const listener = createServer();
    const proxy = new TcpProxy(listener, addressIn(url), applicationName);
    listener.on('connection', (client) => {
      client.on('error', () => undefined);
      if (applicationName === undefined) {
        proxy.#accept(client);
      } else {
        client.once('data', (startup) => {
          proxy.#acceptNamed(client, startup);
        });
      }
    });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** @returns the URL with the proxy's host and port */
  urlFor(url: string): string {
    const detour = new URL(url);
    detour.hostname = '127.0.0.1';
    detour.port = String((this.listener.address() as AddressInfo).port);
    return detour.href;
  }

  /** Forwards new connections to another server, such as one restarted on a new port. */
  retarget(url: string): void {
    this.target = addressIn(url);
  }

  /** Bytes received from clients, forwarded or held. */
  get bytesFromClients(): number {
    return this.#bytesFromClients;
  }

  /** Closes every connection; new ones are forwarded. */
  closeConnections(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
  }

  /**
   * Drops every connection without closing the client's side, as after a power failure of the server or a firewall. New
   * connections are forwarded.
   */
  dropSilently(): void {
    for (const pair of this.#pairs) {
      this.#pairs.delete(pair);
      this.#dropped.add(pair.client);
      pair.server.removeAllListeners('close');
      pair.server.unpipe();
      pair.server.destroy();
    }
  }

  /** Closes every connection, and new ones immediately, like a server that is shutting down. */
  rejectConnections(): void {
    this.#rejecting = true;
    this.closeConnections();
  }

  /** Forwards nothing and closes nothing, on existing and new connections, like a network that drops packets. */
  stall(): void {
    this.#stalled = true;
    for (const { server } of this.#pairs) {
      server.unpipe();
    }
  }

  /** Returns to normal and forwards the held data. */
  restore(): void {
    this.#rejecting = false;
    this.#stalled = false;
    for (const { client, server, held } of this.#pairs) {
      for (const bytes of held.splice(0)) {
        server.write(bytes);
      }
      server.pipe(client);
    }
  }

  /** Does some work before the next client message with this text is forwarded. @returns when it is done */
  before(text: string, work: () => unknown): Promise<void> {
    return this.#interrupt(text, 'before', work);
  }

  /** Does some work after the next client message with this text has its response, before that is forwarded. */
  after(text: string, work: () => unknown): Promise<void> {
    return this.#interrupt(text, 'after', work);
  }

  #interrupt(text: string, when: Interruption['when'], work: () => unknown): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = async (): Promise<void> => {
        await Promise.resolve()
          .then(work)
          .then(() => {
            resolve();
          }, reject);
      };
      this.#interruptions.add({ text, when, work: settle });
    });
  }

  async #forward({ client, server }: Pair, bytes: Buffer): Promise<void> {
    const interruption = [...this.#interruptions].find(({ text }) => bytes.includes(text));
    if (interruption === undefined) {
      server.write(bytes);
      return;
    }
    this.#interruptions.delete(interruption);
    if (interruption.when === 'before') {
      await interruption.work();
      server.write(bytes);
    } else {
      server.unpipe(client);
      server.write(bytes);
      await once(server, 'readable');
      await interruption.work();
      server.pipe(client);
    }
  }

  async close(): Promise<void> {
    this.rejectConnections();
    for (const client of [...this.#dropped, ...this.#spared]) {
      client.destroy();
    }
    await new Promise((resolve) => this.listener.close(resolve));
  }

  /** @param startup the first message, with the parameters of the session; its strings end in NUL */
  #acceptNamed(client: Socket, startup: Buffer): void {
    if (startup.includes(`application_name\0${this.applicationName}\0`)) {
      this.#accept(client, startup);
      return;
    }
    const server = connect(this.target);
    this.#spared.add(client);
    server.on('error', () => undefined);
    server.on('close', () => client.destroy());
    client.on('close', () => {
      server.destroy();
      this.#spared.delete(client);
    });
    server.write(startup);
    client.pipe(server).pipe(client);
  }

  /** @param received from the client before it was accepted */
  #accept(client: Socket, received?: Buffer): void {
    if (this.#rejecting) {
      client.destroy();
      return;
    }
    const pair: Pair = { client, server: connect(this.target), held: [] };
    this.#pairs.add(pair);
    for (const socket of [client, pair.server]) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        client.destroy();
        pair.server.destroy();
        this.#pairs.delete(pair);
      });
    }
    const forward = (bytes: Buffer): void => {
      this.#bytesFromClients += bytes.length;
      if (this.#stalled) {
        pair.held.push(bytes);
      } else {
        void this.#forward(pair, bytes);
      }
    };
    client.on('data', forward);
    if (received !== undefined) {
      forward(received);
    }
    if (!this.#stalled) {
      // With backpressure: a client that does not read must block PostgreSQL as it would without the proxy.
      pair.server.pipe(client);
    }
  }
}

function addressIn(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}
