import { cancelOrder } from '../helpers/api.js';
import { ServiceProcess, useServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';

const context = useServiceProcess();

it('keeps the usage that a process has written every ten seconds, and nothing twice, when it is killed', async () => {
  const { database, key, service: other } = context;
  const killed = await ServiceProcess.start({ DATABASE_URL: database.url });
  try {
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
  } finally {
    await killed.stop('SIGKILL');
  }
});
