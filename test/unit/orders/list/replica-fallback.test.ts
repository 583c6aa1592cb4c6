import type { ListPools, Pools } from '../../../../src/database/pools.js';
import { DomainError } from '../../../../src/errors/domain-error.js';
import type { ListReplica } from '../../../../src/orders/list/list-replica.js';
import { ReplicaFallback } from '../../../../src/orders/list/replica-fallback.js';

const PRIMARY = { name: 'primary' } as unknown as Pools;
const REPLICA = { name: 'replica' } as unknown as ListPools;

/** Reads a list while the replica fails with an error: the servers that were read, and how often the replica was reported. */
async function readWith(error: Error): Promise<{ servers: ListPools[]; reported: number; thrown: unknown }> {
  const [servers, reportFailure]: [ListPools[], jest.Mock] = [[], jest.fn()];
  const replica = { available: REPLICA, reportFailure } as unknown as ListReplica;
  const reading = new ReplicaFallback(PRIMARY, replica).read((server) => {
    servers.push(server);
    return server === REPLICA ? Promise.reject(error) : Promise.resolve(undefined);
  });
  const thrown = await reading.catch((reason: unknown) => reason);
  return { servers, reported: reportFailure.mock.calls.length, thrown };
}

describe('ReplicaFallback', () => {
  it.each([
    ['a recovery conflict', Object.assign(new Error('conflict'), { code: '40001' })],
    ['a lock that replay holds', Object.assign(new Error('lock timeout'), { code: '55P03' })],
    ['a lost connection', new Error('Connection terminated unexpectedly')],
    ['a missing right', Object.assign(new Error('permission denied'), { code: '42501' })],
  ])('reads again from the primary when the replica fails with %s', async (_what, error) => {
    expect(await readWith(error)).toEqual({ servers: [REPLICA, PRIMARY], reported: 1, thrown: undefined });
  });

  it('does not read again when too many lists are being read', async () => {
    const full = new DomainError('service_unavailable', 'Too many order lists are being read; retry shortly.');
    expect(await readWith(full)).toEqual({ servers: [REPLICA], reported: 0, thrown: full });
  });
});
