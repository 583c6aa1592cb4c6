# Two images from one file:
#   docker build --tag petstore-orders .                           the service (the last stage, and so the default)
#   docker build --tag petstore-orders-migrate --target migrate .  `prisma migrate deploy`, run before each new version
# `--build-arg NODE_IMAGE=node:24-bookworm-slim@sha256:…` pins the base image (docs/operations.md).
# Both run as the user `node`, write nothing to their file systems, and contain no compiler and no test tools.

ARG NODE_IMAGE=node:24-bookworm-slim
# Labels of both images; each stage that uses one names it again.
ARG VERSION=1.2.0-dev
ARG REVISION=unknown

# ---------------------------------------------------------------------------------------------------------------- build
FROM ${NODE_IMAGE} AS build
WORKDIR /app

# Dependencies first, so that this layer is rebuilt only when they change.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund

COPY LICENSE openapi.json tsconfig.json tsconfig.build.json nest-cli.json prisma.config.ts ./
COPY prisma prisma
COPY scripts scripts
COPY src src
RUN npm run build

# The contents of the images, readable by `node` whatever the umask of the checkout. The service is the bundle, which needs no
# packages but the files of Swagger UI; the migration needs the Prisma CLI and its engine. What Node does not load goes.
COPY deploy/healthcheck.mjs deploy/
RUN mkdir -p /out/service /out/migrate \
 && cp -r --parents LICENSE package.json openapi.json deploy/healthcheck.mjs node_modules/swagger-ui-dist /out/service \
 && cp -r dist/bundle /out/service/dist \
 && cp -r --parents LICENSE package.json prisma.config.ts prisma src/config src/common/is-decodable.ts /out/migrate \
 && engine=':is(#prisma, [name="@prisma/schema-engine-wasm"], [name="@prisma/driver-adapter-utils"], #pg)' \
 && npm query "$engine, $engine *:not(#typescript)" \
    | node --eval "for (const { location } of JSON.parse(fs.readFileSync(0))) console.log(location)" \
    | xargs cp -r --parents --target-directory=/out/migrate \
 && find /out -name '*.map' -path '*/node_modules/*' -delete \
 && chmod -R a+rX /out

# -------------------------------------------------------------------------------------------------------------- migrate
FROM ${NODE_IMAGE} AS migrate
WORKDIR /app
COPY --from=build /out/migrate ./
# Disables Prisma's update check: a migration needs no host but the database.
ENV NODE_ENV=production CHECKPOINT_DISABLE=1 PRISMA_HIDE_UPDATE_MESSAGE=1
USER node
# A missing file fails here and not in production: the engine says that there is no database (P1001).
RUN DATABASE_URL=postgresql://nobody@127.0.0.1:1/none node node_modules/prisma/build/index.js migrate deploy 2>&1 | grep P1001
ENTRYPOINT ["node", "node_modules/prisma/build/index.js"]
CMD ["migrate", "deploy"]

ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="petstore-orders-migrate" \
      org.opencontainers.image.description="Brings the database of the store orders service up to this version." \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# -------------------------------------------------------------------------------------------------------------- service
FROM ${NODE_IMAGE} AS service
WORKDIR /app
COPY --from=build /out/service ./
# `::` also accepts IPv4. What Node compiles is kept in the image: a start takes a tenth less time, also on a read-only file system.
ENV NODE_ENV=production HOST=:: NODE_COMPILE_CACHE=/app/compile-cache
RUN mkdir compile-cache && chown node compile-cache
USER node
# A missing file fails here and not in production. The service starts and stops without its database, too.
RUN node dist/cli.js openapi | cmp - openapi.json && node --eval "require.resolve('swagger-ui-dist')" \
 && PORT=0 METRICS_PORT=0 DATABASE_URL=postgresql://nobody@127.0.0.1:1/none timeout --preserve-status 5 node --enable-source-maps dist/main.js

EXPOSE 3000 9464
# Liveness, not readiness, which load balancers use: a restart does not help when the database is unavailable. Docker alone only
# shows that a container is unhealthy; Swarm replaces it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["node", "deploy/healthcheck.mjs"]
CMD ["node", "--enable-source-maps", "dist/main.js"]

ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="petstore-orders" \
      org.opencontainers.image.description="List and cancel the orders of a pet store over HTTP." \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
