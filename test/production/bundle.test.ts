import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertOrder } from '../helpers/builders.js';
import { runProcess } from '../helpers/petstore.js';
import { useServiceProcess } from '../helpers/service-process.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

const ROOT = join(__dirname, '..', '..');
const folder = useTemporaryFolder('bundle');
const bundle = join(folder, 'dist', 'bundle');
const CLI = join(bundle, 'cli.js');

describe('the production bundle, with the packages of the image,', () => {
  beforeAll(() => {
    cpSync(join(ROOT, 'dist', 'bundle'), bundle, { recursive: true });
    // The only package of the image.
    const swaggerUi = join('node_modules', 'swagger-ui-dist');
    cpSync(join(ROOT, swaggerUi), join(folder, swaggerUi), { recursive: true });
  });
  const [, HOST = ''] = / HOST=(\S+)/.exec(readFileSync(join(ROOT, 'Dockerfile'), 'utf8')) ?? [];
  /** A copy of the bundle serves a database of its own. */
  const context = useServiceProcess({ HOST, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }, CLI);

  it('listens on IPv4 and IPv6', async () => {
    const statuses = ['127.0.0.1', '[::1]'].map(
      async (address) => (await fetch(`http://${address}:${context.service.port}/health/live`)).status,
    );
    expect(await Promise.all(statuses)).toEqual([200, 200]);
  });

  it('lists and cancels', async () => {
    const id = await insertOrder(context.database.db);
    expect((await listOrders(context.service.baseUrl, context.key)).status).toBe(200);
    expect((await cancelOrder(context.service.baseUrl, id, context.key)).status).toBe(204);
  });

  it('runs every command', async () => {
    const ran: string[] = [];
    const petstore = async (...args: string[]): Promise<string> => {
      ran.push(args.join(' '));
      const environment = { DATABASE_URL: context.database.url, PORT: '0', METRICS_PORT: '0' };
      const { stdout, stderr, exitCode } = await runProcess([process.execPath, CLI, ...args], environment);
      expect({ args, stderr: exitCode === 0 ? '' : stderr }).toEqual({ args, stderr: '' });
      return stdout;
    };
    const orders = join(folder, 'orders.csv');
    writeFileSync(orders, 'id,petId,quantity\n1001,7,1\n');
    await petstore('orders', 'import', orders);
    await petstore('orders', 'show', '1001');
    await petstore('seed', '--orders', '3', '--force');
    const issued = await petstore('keys', 'issue', '--name', 'bundle', '--plan', 'free', '--json');
    const { id } = JSON.parse(issued) as { id: string };
    await petstore('keys', 'list');
    await petstore('keys', 'usage');
    await petstore('keys', 'set-plan', id, '--plan', 'pro');
    for (const command of ['show', 'unban', 'rotate', 'revoke']) {
      await petstore('keys', command, id);
    }
    await petstore('doctor');
    expect(await petstore('openapi')).toBe(readFileSync(join(ROOT, 'openapi.json'), 'utf8'));

    const commandsIn = async (...group: string[]): Promise<string[]> => {
      const [, list = ''] = (await petstore(...group, '--help')).split('\nCommands:\n');
      const names = Array.from((list.split('\n\n')[0] ?? '').matchAll(/^ {2}([a-z-]+)/gm), ([, name = '']) => name);
      return names.filter((name) => name !== 'help');
    };
    for (const group of (await commandsIn()).filter((name) => name !== 'serve')) {
      const inside = await commandsIn(group);
      const commands = inside.length === 0 ? [group] : inside.map((name) => `${group} ${name}`);
      const missing = commands.filter(
        (command) => !ran.some((line) => `${line} `.startsWith(`${command} `) && !line.endsWith('--help')),
      );
      expect(missing).toEqual([]);
    }
  });

  it('serves Swagger UI and the document', async () => {
    const page = await fetch(`${context.service.baseUrl}/docs/`);
    expect(await page.text()).toContain('swagger-ui-bundle.js');
    for (const file of ['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-standalone-preset.js', 'orders.js']) {
      expect((await fetch(`${context.service.baseUrl}/docs/${file}`)).status).toBe(200);
    }
    const document = (await (await fetch(`${context.service.baseUrl}/docs/openapi.json`)).json()) as { paths: object };
    expect(Object.keys(document.paths)).toEqual(['/store/orders', '/store/orders/{orderId}']);
  });
});
