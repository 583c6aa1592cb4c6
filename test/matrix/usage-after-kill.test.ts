import { setTimeout as delay } from 'node:timers/promises';
import { insertKey } from '../helpers/builders.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

/** Time between two writes of a replica, and what a write may take while the machine is busy. Milliseconds. */
const FLUSH_MS = 10_000;
const WRITE_MS = 2_000;
const TRAFFIC_MS = 27_000;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** Sends requests one after the other until the replica is gone; when each response arrived, in Unix milliseconds. */
async function traffic(replica: ServiceProcess, key: string, endMs: number): Promise<number[]> {
  const responses: number[] = [];
  try {
    while (Date.now() < endMs) {
      const { status } = await fetch(`${replica.baseUrl}/v1/nothing-here`, {
        headers: { Authorization: `Bearer ${key}` },
      });
      expect(status).toBe(404);
      responses.push(Date.now());
      await delay(5);
    }
  } catch (error) {
    // The replica is killed; the request in flight may have been counted.
    expect((error as Error).name).toBe('TypeError');
  }
  return responses;
}

async function admittedBy(id: string): Promise<number> {
  const { rows } = await database.db.query<{ admitted: string }>(
    'SELECT coalesce(sum(admitted), 0) AS admitted FROM api_key_usage WHERE key_id = $1',
    [id],
  );
  return Number(rows[0]?.admitted);
}

it('keeps all usage but that of the last ten seconds of a replica that is killed, and counts nothing twice', async () => {
  const [own, shared] = [await insertKey(database.db), await insertKey(database.db)];
  const [killed, other] = await Promise.all([
    ServiceProcess.start({ DATABASE_URL: database.url }),
    ServiceProcess.start({ DATABASE_URL: database.url }),
  ]);
  const endMs = Date.now() + TRAFFIC_MS;
  const running = Promise.all([
    traffic(killed, own.key, endMs),
    traffic(killed, shared.key, endMs),
    traffic(other, shared.key, endMs),
  ]);
  await delay(endMs - Date.now() - 1_000);
  await killed.stop('SIGKILL');
  const killedAtMs = Date.now();
  const [ownSent, sharedKilled, sharedOther] = await running;
  await other.stop();
  const isOld = (time: number): boolean => time < killedAtMs - FLUSH_MS - WRITE_MS;

  const ownAdmitted = await admittedBy(own.id);
  expect(ownAdmitted).toBeGreaterThanOrEqual(ownSent.filter(isOld).length);
  expect(ownAdmitted).toBeLessThanOrEqual(ownSent.length + 1);
  const sharedAdmitted = await admittedBy(shared.id);
  expect(sharedAdmitted).toBeGreaterThanOrEqual(sharedOther.length + sharedKilled.filter(isOld).length);
  expect(sharedAdmitted).toBeLessThanOrEqual(sharedOther.length + sharedKilled.length + 1);
  // The traffic was long enough for several writes, and some of it is lost.
  expect(ownSent.filter(isOld).length).toBeGreaterThan(100);
  expect(ownAdmitted).toBeLessThan(ownSent.length);
});
