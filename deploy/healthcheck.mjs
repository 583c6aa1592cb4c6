// The HEALTHCHECK of the Dockerfile: exits with 0 if the service in this container responds.
import { get } from 'node:http';

// The port of the metrics, which responds when MAX_CONNECTIONS are open on the other one; 0 switches it off.
const metricsPort = process.env.METRICS_PORT || '9464';
const port = metricsPort === '0' ? process.env.PORT || 3000 : metricsPort;

const request = get(
  // An agent of its own uses no proxy, also with NODE_USE_ENV_PROXY.
  { host: '127.0.0.1', port, path: '/health/live', timeout: 4_000, agent: false },
  (res) => {
    process.exit(res.statusCode === 200 ? 0 : 1);
  },
);
request.on('timeout', () => request.destroy());
request.on('error', () => process.exit(1));
