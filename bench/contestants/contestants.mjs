import { fileURLToPath } from 'node:url';
import { goPeer } from './go-peer.mjs';
import { ServerProcess } from './server-process.mjs';

const file = (path) => fileURLToPath(new URL(path, import.meta.url));

const FASTIFY = [file('../peers/fastify-pg.mjs')];
const NEST = [file('../peers/nest-prisma.mjs')];

/** A contestant: its name in the report, program, environment, and status for a missing order. */
export const OWN = contestant('this service', ['--enable-source-maps', file('../../dist/bundle/main.js')], {
  METRICS_PORT: '0',
  LOG_LEVEL: 'warn',
});
/** The others write none. */
export const OWN_LOGGING = contestant('this service with its request log', OWN.program, {
  ...OWN.environment,
  LOG_LEVEL: 'info',
});
/** This service from another build. */
export const serviceAt = (program) => contestant('this service', program, OWN.environment);
/** Trusts `X-Forwarded-For`, so that a run can use many client addresses. */
export const OWN_BEHIND_PROXY = contestant('this service', OWN.program, { ...OWN.environment, TRUST_PROXY: '1' });
export const OWN_WITHOUT_DATABASE = contestant(
  'this service without a database',
  [file('../peers/own-without-database.mjs')],
  OWN.environment,
  204,
);
export const FASTIFY_STREAM = contestant('Fastify + pg-query-stream', FASTIFY, { LIST: 'stream' });
export const FASTIFY_STREAM_TEXT = contestant('Fastify + pg-query-stream, dates as text', FASTIFY, {
  LIST: 'stream-text',
});
export const FASTIFY_JSON = contestant('Fastify + pg, one JSON.stringify', FASTIFY, { LIST: 'json' });
/** Compresses each list with the plugin's default level. */
export const FASTIFY_COMPRESS = contestant('Fastify + pg-query-stream + @fastify/compress', FASTIFY, {
  LIST: 'stream-text',
  COMPRESS: 'true',
});
/** `LIST` matters only for lists. */
export const FASTIFY_PG = contestant('Fastify + pg + Redis', FASTIFY, {});
export const FASTIFY_BEHIND_PROXY = contestant('Fastify + pg + Redis', FASTIFY, { TRUST_PROXY: '1' });
export const FASTIFY_UNCOUNTED = contestant('Fastify, 401 neither counted nor with limit headers', FASTIFY, {
  TRUST_PROXY: '1',
  ANONYMOUS: 'rejected',
});
export const NEST_PRISMA = contestant('NestJS + Prisma + Redis', NEST, {});
export const NEST_PRISMA_CACHED_KEY = contestant('NestJS + Prisma + Redis, key cached 5 s', NEST, {
  KEY_CACHE_SECONDS: '5',
});
/** The Fastify peer's own code on NestJS: the difference between the two is the framework's share. */
export const NEST_PG = contestant('NestJS + pg + Redis', [file('../peers/nest-pg.mjs')], {});
/** Built on first use, see {@link goPeer}. */
export const GO_PGX = contestant('Go + pgx + Redis', [], {});

/** The contestants that can run on this machine. */
export const available = (bench, contestants) =>
  contestants.filter((contestant) => contestant !== GO_PGX || goPeer(bench.folder) !== undefined);

function contestant(name, program, environment, missingOrderStatus = 404) {
  return Object.freeze({ name, program, environment, missingOrderStatus });
}

/** @param {{nodeFlags?: string[]}} options */
export function startContestant(contestant, bench, database, { nodeFlags = [] } = {}) {
  const { program, environment, missingOrderStatus } = contestant;
  return ServerProcess.start({
    executable: contestant === GO_PGX ? goPeer(bench.folder) : process.execPath,
    program: [...nodeFlags, ...program],
    environment: { DATABASE_URL: database.url, REDIS_URL: bench.redis.url, ...environment },
    probe: { key: bench.keys.unlimited, status: missingOrderStatus },
  });
}

/** Starts several contestants, each on its database, runs `work`, and always stops them. */
export async function withContestants(bench, entries, work) {
  const servers = new Map();
  try {
    for (const [contestant, database] of entries) {
      servers.set(contestant, await startContestant(contestant, bench, database));
    }
    return await work(servers);
  } finally {
    await Promise.all(Array.from(servers.values(), (server) => server.stop()));
  }
}
