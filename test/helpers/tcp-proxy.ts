import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** One connection through the proxy. */
interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** What the client has sent while the proxy was stalled. */
  readonly held: Buffer[];
}

/** A network between the service and its database that fails on demand. */
export class TcpProxy {
  readonly #pairs = new Set<Pair>();
  /** Clients whose server is gone without their knowledge. */
  readonly #dropped = new Set<Socket>();
  #rejecting = false;
  #stalled = false;
  #bytesFromClients = 0;

  private constructor(
    private readonly listener: Server,
    private target: { readonly host: string; readonly port: number },
  ) {}

  /** @param url of the server behind the proxy */
  static async start(url: string): Promise<TcpProxy> {
    const listener = createServer();
    const proxy = new TcpProxy(listener, addressIn(url));
    listener.on('connection', (client) => {
      proxy.#accept(client);
    });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** The same URL by way of the proxy. */
  urlFor(url: string): string {
    const detour = new URL(url);
    detour.hostname = '127.0.0.1';
    detour.port = String((this.listener.address() as AddressInfo).port);
    return detour.href;
  }

  /** Leads new connections to another server, such as one that was started again on another port. */
  retarget(url: string): void {
    this.target = addressIn(url);
  }

  /** What clients have sent so far, passed on or swallowed. */
  get bytesFromClients(): number {
    return this.#bytesFromClients;
  }

  /** Breaks every connection; new ones are let through. */
  closeConnections(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
  }

  /**
   * Forgets every connection without a word to the clients, as when a server or a firewall on the way loses its power:
   * what they send from here on reaches nobody. New connections are let through.
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

  /** Breaks every connection, new ones as soon as they are made, like a server that is shutting down. */
  rejectConnections(): void {
    this.#rejecting = true;
    this.closeConnections();
  }

  /** Passes nothing on and closes nothing, on old connections and new ones, like a network that swallows packets. */
  stall(): void {
    this.#stalled = true;
    for (const { server } of this.#pairs) {
      server.unpipe();
    }
  }

  /** Swallows what clients send from here on; what the server sends still arrives. */
  holdClientData(): void {
    this.#stalled = true;
  }

  /** Works again; what was swallowed meanwhile arrives late. */
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

  async close(): Promise<void> {
    this.rejectConnections();
    for (const client of this.#dropped) {
      client.destroy();
    }
    await new Promise((resolve) => this.listener.close(resolve));
  }

  #accept(client: Socket): void {
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
    client.on('data', (bytes) => {
      this.#bytesFromClients += bytes.length;
      if (this.#stalled) {
        pair.held.push(bytes);
      } else {
        pair.server.write(bytes);
      }
    });
    if (!this.#stalled) {
      // At the pace of the client: a list that is not read must hold PostgreSQL up as it would without the proxy.
      pair.server.pipe(client);
    }
  }
}

function addressIn(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}
