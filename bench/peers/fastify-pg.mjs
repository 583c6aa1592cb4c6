// The same interface on Fastify, node-postgres and ioredis: no schemas, no logger. `pg-and-redis.mjs` has the rest.
import fastifyCompress from '@fastify/compress';
import Fastify from 'fastify';
import { bearerOf, cancelOrder, findKey, listOrders, take } from './pg-and-redis.mjs';
import { ANONYMOUS, limitHeaders } from './quotas.mjs';

// A function, because Fastify does not accept a number of hops; there is one.
const app = Fastify({ logger: false, trustProxy: (_address, hop) => hop < 1 });
// Only of the list, with the default level.
await app.register(fastifyCompress, { global: false, encodings: ['gzip'] });

app.addHook('onRequest', async (request, reply) => {
  const token = bearerOf(request.headers.authorization);
  const key = token === undefined ? undefined : await findKey(token);
  const quotas = key?.quotas ?? ANONYMOUS;
  const usage = await take(key === undefined ? `address:${request.ip}` : `key:${key.id}`, quotas);
  reply.headers(limitHeaders(quotas, usage));
  if (!usage.admitted) {
    return reject(reply, 429, 'rate_limit_exceeded', 'The rate limit is exceeded.');
  }
  if (key === undefined) {
    return reject(reply, 401, 'invalid_api_key', 'The API key is not valid.');
  }
});

app.get('/v1/store/orders', { compress: { encodings: ['gzip'] } }, async (_request, reply) => {
  reply.header('content-type', 'application/json');
  return reply.send(listOrders());
});

app.delete('/v1/store/orders/:orderId', async (request, reply) => {
  const rejection = await cancelOrder(request.params.orderId);
  return rejection === undefined ? reply.code(204).send() : reject(reply, ...rejection);
});

await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
process.once('SIGTERM', () => process.exit(0));

function reject(reply, status, code, message) {
  return reply.code(status).send({ code, message, status });
}
