// The HEALTHCHECK of the Dockerfile: exits with 0 if the service in this container responds.
import { get } from 'node:http';

const request = get(
  // An agent of its own uses no proxy, also with NODE_USE_ENV_PROXY.
  { host: '127.0.0.1', port: process.env.PORT || 3000, path: '/health/live', timeout: 4_000, agent: false },
  (res) => {
    process.exit(res.statusCode === 200 ? 0 : 1);
  },
);
request.on('timeout', () => request.destroy());
request.on('error', () => process.exit(1));
