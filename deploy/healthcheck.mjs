// Exit code 0 when the service in this container answers, for the HEALTHCHECK in the Dockerfile.
import { get } from 'node:http';

const request = get(
  { host: '127.0.0.1', port: process.env.PORT || 3000, path: '/health/live', timeout: 4_000 },
  (res) => {
    process.exit(res.statusCode === 200 ? 0 : 1);
  },
);
request.on('timeout', () => request.destroy());
request.on('error', () => process.exit(1));
