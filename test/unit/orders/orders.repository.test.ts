import type { Pools } from '../../../src/database/pools.js';
import type { PrismaService } from '../../../src/database/prisma.service.js';
import { OrdersRepository } from '../../../src/orders/orders.repository.js';

it('names a locked order also when the statement was repeated after a conflict, and writes nothing while commits wait', async () => {
  const $queryRaw = jest
    .fn()
    .mockRejectedValueOnce(Object.assign(new Error('moved to another partition'), { code: '40001' }))
    .mockRejectedValueOnce(Object.assign(new Error('lock timeout'), { code: '55P03' }));
  const beforeWrite = jest.fn().mockResolvedValue(undefined);
  const repository = new OrdersRepository(
    { $queryRaw } as unknown as PrismaService,
    { beforeWrite } as unknown as Pools,
  );
  await expect(repository.cancelWaiting(1n)).rejects.toMatchObject({
    code: 'service_unavailable',
    message: expect.stringContaining('order is locked') as string,
  });
  // Nothing is queried, which would fail in another way.
  beforeWrite.mockRejectedValue(new Error('commits wait'));
  await expect(repository.cancelWaiting(1n)).rejects.toMatchObject({ code: 'service_unavailable' });
});
