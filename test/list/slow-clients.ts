import { listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { RawClient } from '../helpers/raw-client.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { requestText } from '../helpers/wire.js';

/** 113 bytes each in JSON: in all 13 MB, while the system keeps 10 MB at most for a connection. */
const ORDERS = 120_000;
const INSERT = `INSERT INTO orders (pet_id, quantity, ship_date)
  SELECT 9000000000000000000 + n, 2147483647, now() FROM generate_series(1, ${ORDERS}) AS n`;

/** Lists whose rows the service does not read: PostgreSQL cannot continue to send them, or has sent all rows of a COPY. */
const HELD_LISTS = `
  SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY %'
  AND (wait_event = 'ClientWrite' OR state = 'idle in transaction')`;

/** A list that no connection buffers, and clients that read only its first bytes. */
export class SlowClients {
  database!: TestDatabase;
  service!: TestService;
  /** A key that the service accepts. */
  key!: string;
  /** Those that are connected. */
  clients: RawClient[] = [];
  /** Above the ids of those orders. */
  #lastId = 10_000_000;

  nextId(): string {
    return String(++this.#lastId);
  }

  /** Starts the service of a test. */
  async start(environment: Readonly<Record<string, string>>): Promise<void> {
    this.service = await startTestService({ database: this.database, environment });
  }

  async metric(name: string, labels?: string): Promise<number> {
    return (await ServiceMetrics.of(this.service.app)).sum(name, labels);
  }

  streamConnectionsInUse(): Promise<number> {
    return this.metric('petstore_pool_connections', 'pool="list",state="used"');
  }

  /** Opens a list and reads only its first bytes. */
  async stall(caller = this.key): Promise<RawClient> {
    const client = await RawClient.open(this.service.port, requestText('GET', '/v1/store/orders', { key: caller }));
    await client.stall();
    this.clients.push(client);
    return client;
  }

  async untilHeld(streams: number): Promise<void> {
    const isHeld = async (): Promise<boolean> => (await this.database.db.query(HELD_LISTS)).rowCount === streams;
    await waitFor(isHeld, `${streams} lists wait for clients`);
  }

  /** Stalls lists that memory does not hold, each with a key of its own. */
  async holdStreams(count: number): Promise<void> {
    const before = this.clients.length;
    // One after the other: all at once, PostgreSQL may take too long for one of them on a busy machine.
    for (let opened = 1; opened <= count; opened++) {
      await this.stall((await insertKey(this.database.db)).key);
      await this.untilHeld(before + opened);
    }
  }
}

/** Reads the list with a fast client. @returns its response without the body */
export async function expectWholeList(slow: SlowClients, encoding = 'identity', caller = slow.key): Promise<Response> {
  const response = await listOrders(slow.service.baseUrl, caller, { 'Accept-Encoding': encoding });
  expect(response.status).toBe(200);
  const bytes = Buffer.from(await response.arrayBuffer());
  expect(bytes.length).toBeGreaterThan(ORDERS * 80);
  expect(bytes.subarray(-6).toString()).toMatch(/e\}\]$/);
  return response;
}

/** Slow clients for the tests of the file that calls it, each of which starts a service. */
export function useSlowClients(): SlowClients {
  const slow = new SlowClients();
  beforeAll(async () => {
    slow.database = await createTestDatabase();
    await slow.database.db.query(INSERT);
    ({ key: slow.key } = await insertKey(slow.database.db));
  });
  afterEach(async () => {
    slow.clients.forEach((client) => {
      client.socket.destroy();
    });
    slow.clients = [];
    await slow.service.stop();
  });
  afterAll(() => slow.database.drop());
  return slow;
}
