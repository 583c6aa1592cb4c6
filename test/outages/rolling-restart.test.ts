import { insertKey } from '../helpers/builders.js';
import { freePort } from '../helpers/free-port.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { waitFor } from '../helpers/wait-for.js';
import { describeWithProxy, HAPROXY_OF_COMPOSE, ProxyProcess } from '../helpers/shipped-proxies.js';
import { withTraffic } from '../models/order-traffic.js';

const LIST_OR_CANCEL = '/v1/store/orders';

describeWithProxy(HAPROXY_OF_COMPOSE)(`a rolling restart behind HAProxy with ${HAPROXY_OF_COMPOSE.file}`, () => {
  const database = useTestDatabase();
  let ports: number[];
  let services: ServiceProcess[];
  let proxy: ProxyProcess;

  const startService = (port: number): Promise<ServiceProcess> =>
    ServiceProcess.start({
      DATABASE_URL: database.url,
      TRUST_PROXY: '1',
      PORT: String(port),
      SHUTDOWN_DELAY_SECONDS: HAPROXY_OF_COMPOSE.shutdownDelay,
    });

  beforeAll(async () => {
    ports = [await freePort(), await freePort()];
    services = await Promise.all(ports.map(startService));
    proxy = await ProxyProcess.start(HAPROXY_OF_COMPOSE, ports);
  });
  afterAll(async () => {
    await proxy.stop();
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
  });

  /** Waits until the proxy forwards the traffic to all processes. */
  async function untilAllServe(): Promise<void> {
    services.forEach((service) => service.takeOutput());
    const serves = (service: ServiceProcess): boolean => service.output.includes(LIST_OR_CANCEL);
    await waitFor(
      () => services.every(serves),
      () => `all processes get requests: ${proxy.output.slice(-1_000)}`,
    );
  }

  it('loses no list and no cancel', async () => {
    const { key } = await insertKey(database.db);
    const baseUrl = `http://127.0.0.1:${proxy.port}`;
    await waitFor(
      async () => (await fetch(`${baseUrl}/health/ready`).catch(() => undefined))?.status === 200,
      () => `HAProxy responds: ${proxy.output}`,
    );
    const options = { services: () => [{ baseUrl }], db: database.db, key, clients: 6, ledgers: 1 };
    await withTraffic(options, async (traffic) => {
      for (const [index, port] of ports.entries()) {
        await untilAllServe();
        await traffic.until({ '204': 20, '200': 5 });
        expect(await services[index]!.stop()).toBe(0);
        services[index] = await startService(port);
      }
      await untilAllServe();
      const lost = [...traffic.responses].filter(([name]) => name === 'none' || name.startsWith('5'));
      expect(lost).toEqual([]);
    });
  });
});
