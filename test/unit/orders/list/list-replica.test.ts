import { Logger } from '@nestjs/common';
import type { Pools } from '../../../../src/database/pools.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { ListReplica } from '../../../../src/orders/list/list-replica.js';
import { waitFor } from '../../../helpers/wait-for.js';

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
  it('is available after a probe finds a standby of the primary', async () => {
    expect(replica.available).toBeUndefined();
    await replica.onApplicationBootstrap();
    expect(replica.available).toBeDefined();
    expect(logged).toEqual(['reading lists from the replica']);
  });

  it.each<[string, string, Probe]>([
    ['does not respond', 'connect ECONNREFUSED', failing],
    ['is promoted', 'it is not a standby', rows({ identity: '1/5', position: '100', isStandby: false })],
    [
      'has another cluster',
      'it is not a standby of the primary',
      rows({ identity: '2/5', position: '1', isStandby: true }),
    ],
  ])('is unavailable when the server %s', async (_what, reason, probe) => {
    standby.mockImplementation(probe);
    await replica.onApplicationBootstrap();
    expect(replica.available).toBeUndefined();
    expect(logged).toEqual([`replica unavailable (${reason}), reading lists from the primary`]);
  });

  it('is probed at once when a list fails, and logs only changes', async () => {
    await replica.onApplicationBootstrap();
    standby.mockImplementation(failing);
    replica.reportFailure();
    await waitFor(() => replica.available === undefined, 'the replica is unavailable');
    replica.reportFailure();
    await waitFor(() => standby.mock.calls.length >= 3, 'the replica is probed again');
    standby.mockImplementation(STANDBY);
    replica.reportFailure();
    await waitFor(() => replica.available !== undefined, 'the replica is available again');
    expect(logged).toEqual([
      'reading lists from the replica',
      'replica unavailable (connect ECONNREFUSED), reading lists from the primary',
      'reading lists from the replica',
    ]);
  });

  it('stays available while the primary does not respond', async () => {
    await replica.onApplicationBootstrap();
    main.mockImplementation(failing);
    const probes = standby.mock.calls.length;
    replica.reportFailure();
    await waitFor(() => standby.mock.calls.length > probes, 'the replica is probed');
    expect(replica.available).toBeDefined();
  });
});
