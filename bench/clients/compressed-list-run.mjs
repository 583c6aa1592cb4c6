import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { percentile } from '../measure/statistics.mjs';

/** One of so many lists of a paced run is decompressed; of the others only the length in the gzip trailer is read. */
const DECOMPRESSED_EVERY = 100;

/**
 * Reads the list once, compressed.
 * @returns times in milliseconds, and the size of the decompressed list
 */
export async function compressedListRun({ port, key }) {
  const agent = new Agent();
  try {
    const { body, ...times } = await readCompressed({ port, key, agent });
    return { ...times, bodyBytes: [gunzipSync(body).length] };
  } finally {
    agent.destroy();
  }
}

/**
 * Reads compressed lists at a fixed rate, whether or not the earlier ones are complete.
 * @throws {Error} when a list is not complete
 */
export async function pacedListRun({ port, key, perMinute, seconds }) {
  const agent = new Agent({ keepAlive: true });
  const startedAt = performance.now();
  const reads = [];
  try {
    for (let count = 0; count < (perMinute * seconds) / 60; count++) {
      await delay(Math.max(0, startedAt + (count * 60_000) / perMinute - performance.now()));
      const isDecompressed = count % DECOMPRESSED_EVERY === 0;
      reads.push(
        readCompressed({ port, key, agent }).then(({ wallMs, body }) => {
          const bytes = isDecompressed ? gunzipSync(body).length : body.readUInt32LE(body.length - 4);
          return { wallMs, bytes };
        }),
      );
      reads.at(-1).catch(() => undefined);
    }
    const lists = await Promise.all(reads);
    const sorted = Float64Array.from(lists, ({ wallMs }) => wallMs).sort();
    return {
      lists: lists.length,
      seconds: (performance.now() - startedAt) / 1_000,
      p50Ms: percentile(sorted, 0.5),
      p99Ms: percentile(sorted, 0.99),
      smallestBytes: Math.min(...lists.map(({ bytes }) => bytes)),
    };
  } finally {
    agent.destroy();
  }
}

function readCompressed({ port, key, agent }) {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    const headers = { authorization: `Bearer ${key}`, 'accept-encoding': 'gzip' };
    const req = request({ host: '127.0.0.1', port, path: '/v1/store/orders', headers, agent }, (res) => {
      const firstByteMs = performance.now() - startedAt;
      if (res.statusCode !== 200 || res.headers['content-encoding'] !== 'gzip') {
        reject(new Error(`The list has status ${res.statusCode} and encoding ${res.headers['content-encoding']}.`));
        req.destroy();
        return;
      }
      const chunks = [];
      res.on('data', (chunk) => chunks.push(chunk));
      res.once('error', reject);
      res.once('end', () => {
        const wallMs = performance.now() - startedAt;
        resolve({ wallMs, firstByteMs, body: Buffer.concat(chunks) });
      });
    });
    req.once('error', reject);
    req.end();
  });
}
