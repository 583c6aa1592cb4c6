import { connect } from 'node:net';
import { promisify } from 'node:util';
import { ApiKeysRepository } from '../../src/api-keys/api-keys.repository.js';
import { ApiKeysService } from '../../src/api-keys/api-keys.service.js';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { Pools } from '../../src/database/pools.js';
import { DomainError } from '../../src/errors/domain-error.js';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const context = useTestService();
let queries: jest.SpiedFunction<ApiKeysRepository['findByHash']>;
let statements: jest.SpiedFunction<Pools['main']['query']>;
const keyQueries = (): number =>
  statements.mock.calls.filter(([statement]) => JSON.stringify(statement).includes('FROM api_keys')).length;
beforeEach(() => {
  context.service.clock.advance(3_600_000);
  queries = jest.spyOn(context.service.app.get(ApiKeysRepository), 'findByHash');
  statements = jest.spyOn(context.service.app.get(Pools).main, 'query');
});

describe('guessed keys', () => {
  it('cause no query, and valid keys from the same address still work', async () => {
    const [used, unused] = [await insertKey(context.service.db), await insertKey(context.service.db)];
    const [order, other] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
    await listOrders(context.service.baseUrl, used.key);
    const before = keyQueries();
    const codes: string[] = [];
    for (let guess = 0; guess < 300; guess++) {
      codes.push((await errorOf(await listOrders(context.service.baseUrl, generateKey()))).code);
    }
    expect(codes.filter((code) => code === 'invalid_api_key')).toHaveLength(60);
    expect(codes.at(-1)).toBe('address_banned');
    expect(keyQueries()).toBe(before);
    expect((await cancelOrder(context.service.baseUrl, order, used.key)).status).toBe(204);
    // Not in the cache of this process.
    expect((await cancelOrder(context.service.baseUrl, other, unused.key)).status).toBe(204);
    expect(keyQueries()).toBe(before + 1);
  });

  it('that were revoked count against the address although the client resets the connection during the look-up', async () => {
    const revoked = await insertKey(context.service.db, { revoked_at: new Date() });
    let respond: () => void = () => undefined;
    queries.mockImplementation(() => new Promise((resolve) => (respond = () => resolve(undefined))));
    const socket = connect(context.service.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(`GET /v1/store/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${revoked.key}\r\n\r\n`);
    await waitFor(() => queries.mock.calls.length > 0, 'the key is looked up');
    const server = context.service.app.getHttpServer();
    const connections = promisify(server.getConnections.bind(server));
    const before = await connections();
    socket.resetAndDestroy();
    await waitFor(async () => (await connections()) < before, 'the server has noticed the reset');
    respond();
    const { headers } = await listOrders(context.service.baseUrl);
    expect(headers.get('x-ratelimit-remaining')).toBe('58');
  });
});

it('a key that cannot be verified gets 503 with the limits of its last known plan, and counts against it', async () => {
  const { service } = context;
  const { key } = await insertKey(service.db, { plan: 'business' });
  // The notification of the new key may keep the first look-up out of the cache.
  await waitFor(async () => {
    await cancelOrder(service.baseUrl, '404404', key);
    return service.app.get(ApiKeysService).lastKnown(key) !== undefined;
  }, 'the key is cached');
  service.clock.advance(11_000);
  queries.mockRejectedValue(new DomainError('service_unavailable', 'The database is unavailable.'));
  const response = await cancelOrder(service.baseUrl, '404404', key);
  expect(response.status).toBe(503);
  expect(response.headers.get('x-ratelimit-limit')).toBe('1000');
  expect(Number(response.headers.get('x-ratelimit-remaining'))).toBeLessThan(999);
});
