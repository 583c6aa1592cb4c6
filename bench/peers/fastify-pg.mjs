// The same interface on Fastify, node-postgres and ioredis: no schemas, no logger. `pg-and-redis.mjs` has the rest.
//
// COMPRESS=true  lists are compressed with gzip by @fastify/compress
// ANONYMOUS=counted   requests without a valid key are counted per address, as the interface's headers require
// ANONYMOUS=rejected  they are rejected without counting and without limit headers, which the interface does not allow
import fastifyCompress from '@fastify/compress';
import Fastify from 'fastify';
import { bearerOf, cancelOrder, findKey, listOrders, take } from './pg-and-redis.mjs';
import { ANONYMOUS, limitHeaders } from './quotas.mjs';

const { PORT, TRUST_PROXY, COMPRESS, ANONYMOUS: anonymous = 'counted' } = process.env;

// A function, because Fastify does not accept a number of hops.
const trustProxy = TRUST_PROXY === undefined ? false : (_address, hop) => hop < Number(TRUST_PROXY);
const app = Fastify({ logger: false, trustProxy });
if (COMPRESS === 'true') {
  await app.register(fastifyCompress, { encodings: ['gzip'] });
}

app.addHook('onRequest', async (request, reply) => {
  const token = bearerOf(request.headers.authorization);
  const key = token === undefined ? undefined : await findKey(token);
  if (key === undefined && anonymous === 'rejected') {
    return reject(reply, 401, 'invalid_api_key', 'The API key is not valid.');
  }
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

app.get('/v1/store/orders', async (_request, reply) => {
  reply.header('content-type', 'application/json');
  return reply.send(await listOrders());
});

app.delete('/v1/store/orders/:orderId', async (request, reply) => {
  const rejection = await cancelOrder(request.params.orderId);
  return rejection === undefined ? reply.code(204).send() : reject(reply, ...rejection);
});

await app.listen({ host: '127.0.0.1', port: Number(PORT) });
process.once('SIGTERM', () => process.exit(0));

function reject(reply, status, code, message) {
  return reply.code(status).send({ code, message, status });
}
