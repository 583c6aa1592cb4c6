import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { insertKey } from './builders.js';
import { ManualClock } from './manual-clock.js';
import { RecordingProxy } from './recording-proxy.js';
import { startTestService, type TestService } from './test-service.js';

const ROOT = join(__dirname, '..', '..');
/** The npm packages of the clients, and a Node that has `context.source` in `JSON.parse`. */
export const CLIENT_PACKAGES = join(ROOT, 'test', 'weekly', 'clients');

/** Orders from 2^53 on: each of these ids shares its double with a neighbour. */
const FIRST_ID = 2n ** 53n;
const IDS_AROUND = 40;
const ORDERS = 500;

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A service with orders whose ids are not exact as doubles, behind a proxy that records. */
export class ClientService {
  private constructor(
    readonly service: TestService,
    readonly proxy: RecordingProxy,
    private readonly list: readonly string[],
  ) {}

  static async start(environment: Readonly<Record<string, string>> = {}): Promise<ClientService> {
    // A clock that stands still: a spent quota stays spent.
    const service = await startTestService({ clock: new ManualClock(), environment });
    await service.db.query(
      `INSERT INTO orders (id, pet_id, quantity) SELECT id, -id, 1 FROM (
         SELECT ${FIRST_ID} + n FROM generate_series(0, ${IDS_AROUND} - 1) AS n
         UNION ALL SELECT 9223372036854775807 - n * 999999999937 FROM generate_series(0, ${ORDERS} - 1) AS n
       ) AS ids (id)`,
    );
    const { rows } = await service.db.query<{ line: string }>(
      "SELECT id || ' ' || pet_id AS line FROM orders ORDER BY orders.id",
    );
    const lines = rows.map(({ line }) => line);
    return new ClientService(service, await RecordingProxy.start(service.baseUrl), lines);
  }

  /** @returns an id above 2^53 that is not exact as a double, different for each index */
  idOf(index: number): string {
    return String(FIRST_ID + BigInt(2 * index + 1));
  }

  /** What a program prints that lists, lists again with the `ETag`, and cancels an order. */
  outputFor(orderId: string, code = 'cancelled'): string {
    return [...this.list, 'unchanged', `${orderId}: ${code}`, ''].join('\n');
  }

  /** Makes all orders pending again and forgets the recorded requests. @returns a new key */
  async reset(): Promise<string> {
    await this.service.db.query("UPDATE orders SET status = 'pending', cancelled_at = NULL WHERE status <> 'pending'");
    this.proxy.reset();
    return (await insertKey(this.service.db)).key;
  }

  async cancelledIds(): Promise<string[]> {
    const { rows } = await this.service.db.query<{ id: string }>("SELECT id FROM orders WHERE status <> 'pending'");
    return rows.map(({ id }) => id);
  }

  /** @returns a key whose quota of the day is used up */
  async insertSpentKey(): Promise<string> {
    const { key } = await insertKey(this.service.db, { requests_per_day: 1 });
    const response = await fetch(`${this.service.baseUrl}/v1/store/orders`, {
      headers: { authorization: `Bearer ${key}` },
    });
    await response.text();
    return key;
  }

  async stop(): Promise<void> {
    await this.proxy.close();
    await this.service.stop();
  }
}

/** Runs a program in a folder, with no environment variables except the given ones and PATH. */
export function runProgram(
  [name = '', ...args]: readonly string[],
  cwd: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  const env = { PATH: process.env.PATH, ...environment };
  return new Promise((resolve) => {
    execFile(name, args, { cwd, env, timeout: 120_000, maxBuffer: 2 ** 24 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

export function hasNewNode(): boolean {
  return Number(process.versions.node.split('.')[0]) >= 22;
}

/** A Node whose `JSON.parse` has `context.source`: this one, or the one in {@link CLIENT_PACKAGES}, on linux-x64. */
export function newNode(): string {
  return hasNewNode() ? process.execPath : join(CLIENT_PACKAGES, 'node_modules', 'node-24', 'bin', 'node');
}

/** What the programs need that run with {@link newNode}. */
export const NEW_NODE = {
  isInstalled: () => hasNewNode() || (process.platform === 'linux' && process.arch === 'x64'),
  requirement: 'Node 22 or linux-x64',
};

/** `npm ci` in a folder, once; in its own process, because Jest does not import ESM. */
export function installOnce(folder: string): void {
  const module = pathToFileURL(join(ROOT, '.ci', 'install.mjs')).href;
  const script = `import { installOnce } from ${JSON.stringify(module)}; installOnce(${JSON.stringify(folder)});`;
  execFileSync(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'ignore', 'inherit'] });
}
