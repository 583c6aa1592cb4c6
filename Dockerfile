# Two images from one file:
#   docker build --tag petstore-orders .                           the service (the last stage, and so the default)
#   docker build --tag petstore-orders-migrate --target migrate .  `prisma migrate deploy`, run before each new version
# Both run as `node`, write nothing to their own file systems and hold neither compiler nor test tools.

# ---------------------------------------------------------------------------------------------------------------- build
FROM node:24-bookworm-slim AS build
WORKDIR /app

# The dependencies first: this layer is made again only when they change.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund

COPY LICENSE openapi.json tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma prisma
COPY src src
RUN npm run build && find dist -name '*.map' -delete

# What the images hold, readable by `node` whatever the umask of the checkout was. The packages stand apart from our own
# files, so that a new version of the service shares their layer with the one before.
COPY deploy deploy
RUN node deploy/collect-modules.mjs /out/service-modules \
 && node deploy/collect-modules.mjs /out/migrate-modules \
      prisma @prisma/schema-engine-wasm @prisma/driver-adapter-utils @prisma/adapter-pg pg \
 && mkdir -p /out/service /out/migrate \
 && cp -r --parents LICENSE package.json openapi.json dist deploy/healthcheck.mjs /out/service \
 && cp -r --parents LICENSE package.json prisma.config.ts prisma deploy/prisma.sh /out/migrate \
 && chmod -R a+rX /out

# -------------------------------------------------------------------------------------------------------------- migrate
FROM node:24-bookworm-slim AS migrate
LABEL org.opencontainers.image.title="petstore-orders-migrate" \
      org.opencontainers.image.description="Brings the database of the store orders service up to this version." \
      org.opencontainers.image.licenses="MIT"
WORKDIR /app
COPY --from=build /out/migrate-modules ./
COPY --from=build /out/migrate ./
# Prisma would ask a host of its own for news; a migration needs the database's host and no other.
ENV NODE_ENV=production CHECKPOINT_DISABLE=1 PRISMA_HIDE_UPDATE_MESSAGE=1
USER node
ENTRYPOINT ["/bin/sh", "deploy/prisma.sh"]
CMD ["migrate", "deploy"]

# -------------------------------------------------------------------------------------------------------------- service
FROM node:24-bookworm-slim AS service
WORKDIR /app
COPY --from=build /out/service-modules ./
COPY --from=build /out/service ./
ENV NODE_ENV=production HOST=0.0.0.0
USER node
# One package or file too few fails here and not in production: printing the document loads every module of the service,
# $connect loads the query compiler, which is otherwise loaded by the first query, without connecting anywhere, and the
# tracing is loaded only where it is used.
RUN node dist/cli.js openapi | cmp - openapi.json \
 && node --input-type=module --eval "import './dist/tracing/open-telemetry.js'" \
 && node --input-type=module --eval "import { connectPrisma } from './dist/database/connect-prisma.js'; \
      await connectPrisma('postgresql://nobody@127.0.0.1:1/none').prisma.\$connect();"

EXPOSE 3000 9464
# Liveness, not readiness: what acts on this restarts the container, and no restart heals a database that is away.
# Balancers ask /health/ready themselves.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["node", "deploy/healthcheck.mjs"]
CMD ["node", "dist/cli.js", "serve"]

ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="petstore-orders" \
      org.opencontainers.image.description="List and cancel the orders of a pet store over HTTP." \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
