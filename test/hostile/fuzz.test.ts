import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { fuzzConnection } from '../helpers/fuzz-connection.js';
import { withSeed } from '../helpers/seeded-random.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { waitFor } from '../helpers/wait-for.js';
import { parseResponses, type WireResponse } from '../helpers/wire.js';
import { makeAttack } from './corpus.js';

/** `FUZZ_ATTACKS` sets a larger number for longer runs. */
const ATTACKS = Number(process.env.FUZZ_ATTACKS ?? '400');
const AT_ONCE = 40;
jest.setTimeout(180_000 + ATTACKS * 40);

const context = useServiceProcess({ CORS_ORIGINS: 'https://app.example.com', RATE_LIMIT_BAN_THRESHOLD: '0' });

const LAST_REQUEST = 'GET /nowhere HTTP/1.1\r\nHost: localhost';

/** On Linux every address of 127/8 is local and has its own quota; elsewhere all attacks share one. */
function someAddress(number: number): string | undefined {
  return process.platform === 'linux' ? `127.1.${number % 200}.${(number % 250) + 1}` : undefined;
}

function expectKnownResponse(response: WireResponse): void {
  expect([100, 200, 204, 301, 302, 304, 400, 401, 404, 405, 408, 409, 429, 431]).toContain(response.status);
  if (response.status >= 400) {
    expectErrorResponse(response, response.status, (JSON.parse(response.body) as { code: string }).code);
  }
}

async function attack(bytes: Buffer, number: number): Promise<void> {
  const { text, closed } = await fuzzConnection(context.service.port, bytes, LAST_REQUEST, someAddress(number));
  try {
    const responses = parseResponses(Buffer.from(text, 'latin1'), closed, []);
    responses.forEach(expectKnownResponse);
    // No bytes between the responses, and no incomplete response.
    const starts = text.match(/HTTP\/1\.1 \d{3} /g)?.length ?? 0;
    // Nothing when malformed input follows a request whose response is pending.
    expect(text).toMatch(closed ? /^(?:HTTP\/1\.1 |$)/ : /^HTTP\/1\.1 /);
    expect(responses).toHaveLength(starts);
  } catch (error) {
    (error as Error).message += `\nSent: ${JSON.stringify(bytes.toString('latin1'))}\nGot: ${JSON.stringify(text)}`;
    throw error;
  }
}

describe('random and malformed input', () => {
  it('gets error responses or a closed connection, and leaves no connection and no error in the log', async () => {
    await withSeed(async (random) => {
      const attacks = Array.from({ length: ATTACKS }, () => makeAttack(random, context.key));
      let next = 0;
      await Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          for (let number = next++; number < attacks.length; number = next++) {
            await attack(attacks[number]!, number);
          }
        }),
      );
      await waitFor(async () => (await context.metrics()).openFiles < 60, 'all connections are closed');
      await waitFor(async () => (await context.metrics()).connectionsInUse === 0, 'the pools are idle');
      expect((await fetch(`${context.service.baseUrl}/health/ready`)).status).toBe(200);
      expect(context.service.output).not.toMatch(/"level":(?:50|60)/);
    });
  });
});
