import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const lines: unknown[] = [];
const context = useTestService({
  requestLog: (line) => lines.push(line),
  environment: { RATE_LIMIT_BAN_THRESHOLD: '2', RATE_LIMIT_BAN_WINDOW_SECONDS: '60' },
});

async function lastLine(): Promise<unknown> {
  await waitFor(() => lines.length > 0, 'the request is logged');
  return lines.splice(0).at(-1);
}

describe('the log line of a request has the reason for its rejection', () => {
  it.each([
    ['over the limit per minute', { requests_per_minute: 1, requests_per_day: 10 }, 'per_minute'],
    ['over the limit per day', { requests_per_minute: 10, requests_per_day: 1 }, 'per_day'],
    ['over both limits', { requests_per_minute: 1, requests_per_day: 1 }, 'per_day'],
  ])('%s, and later during the ban', async (_what, quotas, reason) => {
    const { key } = await insertKey(context.service.db, quotas);
    const request = async (): Promise<unknown> => {
      await call(context.service.baseUrl, 'HEAD', '/store/orders', key);
      return lastLine();
    };
    expect(await request()).toMatchObject({ status: 200, rejection: undefined });
    expect(await request()).toMatchObject({ status: 429, rejection: reason });
    // Later than what was in flight before the first rejection.
    context.service.clock.advance(3_000);
    expect(await request()).toMatchObject({ status: 429, rejection: 'banned' });
  });
});
