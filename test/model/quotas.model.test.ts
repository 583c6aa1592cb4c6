import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { withSeed } from '../helpers/seeded-random.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const PER_MINUTE = 7;
const PER_DAY = 40;
/** Clock steps between two bursts: mostly to just before, exactly at, or just after a window boundary. */
const JUMPS_MS = [0, 1, 999, 1_000, 29_999, 30_000, 30_001, MINUTE_MS - 1, MINUTE_MS, MINUTE_MS + 1, 6 * 3_600_000];

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '0' } });
});
afterAll(() => service.stop());

describe('random bursts of requests around minute and day boundaries', () => {
  it('admit exactly as many requests as the limits allow, and rejected requests consume nothing', async () => {
    await withSeed(async (random) => {
      const quota = { requests_per_minute: PER_MINUTE, requests_per_day: PER_DAY };
      const keys = [await insertKey(service.db, quota), await insertKey(service.db, quota)].map(({ key }) => key);
      const admitted = new Map<string, number>();
      const countOf = (key: string, windowMs: number): number =>
        admitted.get(`${key} ${windowMs} ${Math.floor(service.clock.now() / windowMs)}`) ?? 0;
      for (let burst = 0; burst < 120; burst++) {
        service.clock.advance(random.pick(JUMPS_MS));
        const key = random.pick(keys);
        const [minute, day] = [countOf(key, MINUTE_MS), countOf(key, DAY_MS)];
        const left = Math.min(PER_MINUTE - minute, PER_DAY - day);
        const size = 1 + random.below(12);
        const responses = await Promise.all(
          Array.from({ length: size }, () => call(service.baseUrl, 'GET', '/nowhere', key)),
        );
        const accepted = responses.filter(({ status }) => status === 404);
        expect([accepted.length, responses.filter(({ status }) => status === 429).length]).toEqual([
          Math.min(left, size),
          size - Math.min(left, size),
        ]);
        for (const windowMs of [MINUTE_MS, DAY_MS]) {
          const window = `${key} ${windowMs} ${Math.floor(service.clock.now() / windowMs)}`;
          admitted.set(window, countOf(key, windowMs) + accepted.length);
        }
        // Distinct values: no request was counted twice or for another one.
        const remaining = accepted.map(
          (response) => /"minute";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1],
        );
        expect(remaining.map(Number).sort((a, b) => b - a)).toEqual(
          accepted.map((_, index) => PER_MINUTE - minute - index - 1),
        );
      }
    });
  });
});
