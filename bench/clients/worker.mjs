// The process of the client: executes one run after the other, each an object with `port`, `kind` and what that kind needs.
import { Connection } from './connection.mjs';
import { messages } from './messages.mjs';

const RUNS = { load, list };

process.on('message', (spec) => {
  RUNS[spec.kind](spec).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: String(error) }),
  );
});

/** Keeps connections, opened before, busy for some seconds. */
async function load({ port, connections, request, seconds }) {
  const next = messages(request);
  const latencies = [];
  const statuses = new Set();
  const opened = await Promise.all(Array.from({ length: connections }, () => Connection.open(port)));
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1_000;
  await Promise.all(
    opened.map(async (connection) => {
      for (let sentAt = startedAt; sentAt < endsAt;) {
        const message = next();
        if (message === undefined) {
          throw new Error('All orders are cancelled; pass more --orders or less --seconds.');
        }
        statuses.add(await connection.send(message));
        const now = performance.now();
        latencies.push(now - sentAt);
        sentAt = now;
      }
    }),
  );
  const tookSeconds = (performance.now() - startedAt) / 1_000;
  opened.forEach((connection) => connection.close());
  latencies.sort((one, other) => one - other);
  return {
    responses: latencies.length,
    statuses: [...statuses],
    perSecond: latencies.length / tookSeconds,
    p99Ms: latencies[Math.floor(latencies.length * 0.99)],
  };
}

/** Reads the list once. */
async function list({ port, request }) {
  const connection = await Connection.open(port);
  const startedAt = performance.now();
  const status = await connection.send(messages(request)());
  const wallMs = performance.now() - startedAt;
  connection.close();
  return { statuses: [status], responses: 1, wallMs };
}
