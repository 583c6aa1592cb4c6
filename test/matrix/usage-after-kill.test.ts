import { cancelOrder } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';

it('keeps the usage that a process has written every ten seconds, and nothing twice, when it is killed', async () => {
  const database = await createTestDatabase();
  const { key } = await insertKey(database.db);
  const [killed, other] = await Promise.all(
    [1, 2].map(() => ServiceProcess.start({ DATABASE_URL: database.url })) as [
      Promise<ServiceProcess>,
      Promise<ServiceProcess>,
    ],
  );
  const admitted = async (): Promise<string | null> => {
    const { rows } = await database.db.query<{ admitted: string | null }>(
      'SELECT sum(admitted) AS admitted FROM api_key_usage',
    );
    return rows[0]!.admitted;
  };
  for (const { baseUrl } of [killed, other, killed, other, killed]) {
    expect((await cancelOrder(baseUrl, '1', key)).status).toBe(404);
  }
  await waitFor(async () => (await admitted()) === '5', 'the usage is written', { withinMs: 60_000 });
  await cancelOrder(other.baseUrl, '1', key);
  await killed.stop('SIGKILL');
  await other.stop();
  expect(await admitted()).toBe('6');
  await database.drop();
});
