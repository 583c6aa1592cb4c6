import { Agent, request } from 'node:http';
import { gunzipSync } from 'node:zlib';

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
