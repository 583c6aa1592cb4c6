import { Logger } from '@nestjs/common';
import type { Pools } from '../../../../src/database/pools.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ListReplica } from '../../../../src/orders/list/list-replica.js';

type Probe = () => Promise<{ rows: unknown[] }>;

const rows =
  (row: object): Probe =>
  () =>
    Promise.resolve({ rows: [row] });
const failing: Probe = () => Promise.reject(new Error('connect ECONNREFUSED'));
const PRIMARY = rows({ identity: '1/5', position: '100' });
const STANDBY = rows({ identity: '1/5', position: '100', isStandby: true });

let logged: string[];
let main: jest.Mock;
let standby: jest.Mock;
let replica: ListReplica;

beforeEach(() => {
  logged = [];
  for (const level of ['log', 'warn'] as const) {
    jest.spyOn(Logger.prototype, level).mockImplementation((...[message]: unknown[]) => {
      logged.push(String(message));
    });
  }
  main = jest.fn(PRIMARY);
  standby = jest.fn(STANDBY);
  const pools = { main: { query: main }, replica: { main: { query: standby } } } as unknown as Pools;
  replica = new ListReplica(pools, new Metrics());
});
afterEach(() => {
  replica.beforeApplicationShutdown();
  jest.restoreAllMocks();
});

describe('ListReplica', () => {
  it('is unavailable until the primary has responded', async () => {
    main.mockImplementation(failing);
    await replica.onApplicationBootstrap();
    expect(replica.available).toBeUndefined();
    expect(logged).toEqual(['replica unavailable (the primary has not responded yet), reading lists from the primary']);
  });

  it('is unavailable when the standby has another cluster', async () => {
    standby.mockImplementation(rows({ identity: '2/5', position: '1', isStandby: true }));
    await replica.onApplicationBootstrap();
    expect(replica.available).toBeUndefined();
    expect(logged).toEqual([
      'replica unavailable (it is not a standby of the primary), reading lists from the primary',
    ]);
  });

  it('stays available while the primary does not respond', async () => {
    await replica.onApplicationBootstrap();
    main.mockImplementation(failing);
    // Probes again.
    await replica.onApplicationBootstrap();
    expect(replica.available).toBeDefined();
  });
});
