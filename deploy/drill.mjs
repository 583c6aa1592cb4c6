#!/usr/bin/env node
// Counts what partners would lose while something is done to a running deployment:
//
//   PETSTORE_KEY=pst_… node deploy/drill.mjs http://127.0.0.1:8080 60
//
// For so many seconds cancels generated orders, each once, reads the list now and then, and counts every answer that is not what
// partners expect. Then asks again for each order whose cancel was answered 204: it must have stayed cancelled. Exit code 0
// when nothing was lost. Seed orders first (`admin seed --orders 100000 --force`), give it a key of a large plan, begin where
// the drill before ended (`nextId`), and never run it against orders that matter.
import { Agent, request } from 'node:http';

const [baseUrl = '', seconds = '30', firstId = '1'] = process.argv.slice(2);
const key = process.env.PETSTORE_KEY;
if (!URL.canParse(baseUrl) || key === undefined) {
  process.stderr.write('usage: PETSTORE_KEY=… node deploy/drill.mjs BASE_URL [SECONDS [FIRST_ID]]\n');
  process.exit(2);
}

const CONNECTIONS = 16;
const LIST_EVERY = 1_000;
/** Requests per second and connection: steady, not as many as possible, so that slowness shows as slowness. */
const PACE = 25;

/** `DELETE order_already_cancelled` at the first attempt is none of it: somebody on the way has sent the request twice. */
const EXPECTED = new Set(['GET 200', 'DELETE 204']);

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
const answers = {};
const failures = [];
const cancelled = [];
let slowestMs = 0;
let nextId = Number(firstId);
let turns = 0;

/** @returns {Promise<string | undefined>} the code of an error, the status of anything else; undefined: no complete answer */
function send(method, path) {
  const startedMs = performance.now();
  return new Promise((resolve) => {
    const req = request(`${baseUrl}/v1/store/orders${path}`, {
      method,
      agent,
      headers: { Authorization: `Bearer ${key}` },
    });
    const fail = (error) => {
      failures.push({ at: new Date().toISOString(), method, path, error: error.code ?? error.message });
      resolve(undefined);
    };
    req.on('error', fail);
    req.on('response', (res) => {
      let body = '';
      res.setEncoding('utf8');
      // A list is long, and only its end matters.
      res.on('data', (chunk) => (body = res.statusCode < 400 ? '' : body + chunk));
      res.on('error', fail);
      res.on('end', () => {
        slowestMs = Math.max(slowestMs, performance.now() - startedMs);
        resolve(res.statusCode < 400 ? String(res.statusCode) : (codeOf(body) ?? `${res.statusCode} of another shape`));
      });
    });
    req.end();
  });
}

function codeOf(body) {
  try {
    return JSON.parse(body).code;
  } catch {
    return undefined;
  }
}

async function count(method, path) {
  const answer = await send(method, path);
  const name = `${method} ${answer ?? 'broken off'}`;
  answers[name] = (answers[name] ?? 0) + 1;
  if (answer !== undefined && !EXPECTED.has(name)) {
    failures.push({ at: new Date().toISOString(), method, path, answer });
  }
  return answer;
}

/** Of six generated orders the first three are pending. */
function takePending() {
  while (nextId % 6 > 2) {
    nextId++;
  }
  return nextId++;
}

async function work(untilMs) {
  while (performance.now() < untilMs) {
    const turnEndsMs = performance.now() + 1_000 / PACE;
    const id = takePending();
    if (++turns % LIST_EVERY === 0) {
      await count('GET', '');
    }
    if ((await count('DELETE', `/${id}`)) === '204') {
      cancelled.push(id);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, turnEndsMs - performance.now())));
  }
}

const untilMs = performance.now() + Number(seconds) * 1_000;
await Promise.all(Array.from({ length: CONNECTIONS }, () => work(untilMs)));

let lost = 0;
const toCheck = [...cancelled];
await Promise.all(
  Array.from({ length: CONNECTIONS }, async () => {
    for (let id = toCheck.pop(); id !== undefined; id = toCheck.pop()) {
      const answer = await send('DELETE', `/${id}`);
      lost += answer === 'order_already_cancelled' ? 0 : 1;
    }
  }),
);
agent.destroy();
const report = {
  answers,
  slowestMs: Math.round(slowestMs),
  cancelled: cancelled.length,
  cancelsLost: lost,
  failures: failures.length,
  firstFailures: failures.slice(0, 10),
  nextId,
};
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
// A drill that cancelled nothing has shown nothing.
process.exitCode = failures.length === 0 && lost === 0 && cancelled.length > 0 ? 0 : 1;
