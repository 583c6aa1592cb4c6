import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { seedOrders } from '../../src/orders/seed-orders.js';
import { runProcess } from '../helpers/petstore.js';
import { insertKey } from '../helpers/builders.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const README = readFileSync(join(__dirname, '..', '..', 'README.md'), 'utf8');

interface Block {
  readonly language: string;
  readonly text: string;
}

/** @returns the fenced code blocks of a section, in order */
function blocksOf(heading: string): Block[] {
  const section = README.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = '', text = '']) => ({
    language,
    text,
  }));
}

/** Runs a command of the README in a shell against the test service. */
async function runCommand(command: string, service: TestService, key: string): Promise<string> {
  const script = command.replaceAll('http://127.0.0.1:3000', service.baseUrl);
  expect(script).toContain(service.baseUrl);
  return (await runProcess(['sh', '-c', script], { KEY: key })).stdout;
}

/** Headers whose value depends on the time, the request or the orders. */
const VARIABLE = /^(?:X-Request-Id|X-RateLimit-Reset|RateLimit|ETag):/;

/** @returns the lines of the headers; of variable ones the name */
const headerLines = (response: string): string[] =>
  (response.split(/\r?\n\r?\n/)[0] ?? '')
    .split(/\r?\n/)
    .slice(1)
    .map((line) => VARIABLE.exec(line)?.[0] ?? line)
    .filter((line) => line !== '');

const statusLine = (response: string): string => response.split(/\r?\n/)[0] ?? '';

const bodyOf = (response: string): string => response.slice(response.indexOf('\r\n\r\n') + 4);

describe('the curl commands of the README', () => {
  let service: TestService;
  let key: string;
  beforeAll(async () => {
    service = await startTestService();
    ({ key } = await insertKey(service.db, { plan: 'free' }));
    const connection = await service.db.connect();
    await seedOrders(connection, 60);
    connection.release();
  });
  afterAll(() => service.stop());

  it('return the documented status lines, headers, first order, and error for a second cancel', async () => {
    const blocks = blocksOf('The two operations');
    const commands = blocks.flatMap(({ language, text }, index) =>
      language === 'sh' && text.startsWith('curl') ? [{ command: text, shown: blocks[index + 1]?.text ?? '' }] : [],
    );
    expect(commands.map(({ command }) => /-X (\w+)/.exec(command)?.[1] ?? 'GET')).toEqual(['GET', 'DELETE']);
    const responses: string[] = [];
    for (const { command, shown } of commands) {
      const response = await runCommand(command, service, key);
      responses.push(response);
      expect(statusLine(response)).toBe(statusLine(shown));
      expect(headerLines(response)).toEqual(expect.arrayContaining(headerLines(shown)));
    }
    const [first = ''] = /(?<=\[)\{.*?\}/.exec(commands[0]?.shown ?? '') ?? [];
    expect(JSON.parse(first)).toEqual((JSON.parse(bodyOf(responses[0] ?? '')) as unknown[])[0]);
    const second = await runCommand(commands[1]?.command ?? '', service, key);
    const shownError = blocks.find(({ language }) => language === 'json')?.text ?? '';
    expect(JSON.parse(bodyOf(second))).toEqual(JSON.parse(shownError));
  });
});
