// The HEALTHCHECK of the Dockerfile: exits with 0 if the service in this container responds.
import { get } from 'node:http';

const request = get(
  { host: '127.0.0.1', port: process.env.PORT || 3000, path: '/health/live', timeout: 4_000 },
  (res) => {
    process.exit(res.statusCode === 200 ? 0 : 1);
  },
);
request.on('timeout', () => request.destroy());
request.on('error', () => process.exit(1));
