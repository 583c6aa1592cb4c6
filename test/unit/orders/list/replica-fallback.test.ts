import type { ListPools, Pools } from '../../../../src/database/pools.js';
import { DomainError } from '../../../../src/errors/domain-error.js';
import { ReplicaFallback } from '../../../../src/orders/list/replica-fallback.js';
import type { ListReplica } from '../../../../src/orders/list/list-replica.js';

const PRIMARY = { name: 'primary' } as unknown as Pools;
const REPLICA = { name: 'replica' } as unknown as ListPools;

/** A database with a replica in this state, and which servers were read. */
function databaseWith(available: ListPools | undefined): {
  database: ReplicaFallback;
  failures: () => number;
  read: (fail?: (server: ListPools) => Error | undefined) => Promise<ListPools[]>;
} {
  let failures = 0;
  const replica = { available, reportFailure: () => failures++ } as unknown as ListReplica;
  const database = new ReplicaFallback(PRIMARY, replica);
  return {
    database,
    failures: () => failures,
    read: async (errorOn = () => undefined) => {
      const servers: ListPools[] = [];
      await database.read((server) => {
        servers.push(server);
        const error = errorOn(server);
        if (error !== undefined) {
          throw error;
        }
        return Promise.resolve();
      });
      return servers;
    },
  };
}

describe('ReplicaFallback', () => {
  it('reads from the replica while it is available, and from the primary otherwise', async () => {
    expect(await databaseWith(REPLICA).read()).toEqual([REPLICA]);
    expect(await databaseWith(undefined).read()).toEqual([PRIMARY]);
  });

  it.each([
    ['a recovery conflict', Object.assign(new Error('conflict'), { code: '40001' })],
    ['a lock that replay holds', Object.assign(new Error('lock timeout'), { code: '55P03' })],
    ['a lost connection', new Error('Connection terminated unexpectedly')],
    ['a missing right', Object.assign(new Error('permission denied'), { code: '42501' })],
  ])('reads again from the primary when the replica fails with %s', async (_what, error) => {
    const { read, failures } = databaseWith(REPLICA);
    expect(await read((server) => (server === REPLICA ? error : undefined))).toEqual([REPLICA, PRIMARY]);
    expect(failures()).toBe(1);
  });

  it('does not read again when too many lists are being read', async () => {
    const { read, failures } = databaseWith(REPLICA);
    const full = new DomainError('service_unavailable', 'Too many order lists are being read; retry shortly.');
    await expect(read(() => full)).rejects.toBe(full);
    expect(failures()).toBe(0);
  });

  it('fails when the primary fails', async () => {
    const error = new Error('down');
    await expect(databaseWith(REPLICA).read(() => error)).rejects.toBe(error);
    await expect(databaseWith(undefined).read(() => error)).rejects.toBe(error);
  });
});
