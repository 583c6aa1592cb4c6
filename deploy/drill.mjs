#!/usr/bin/env node
// Counts lost requests while a running deployment is changed:
//
//   PETSTORE_KEY=pst_… node deploy/drill.mjs http://127.0.0.1:8080 60
//
// Cancels generated orders for the given number of seconds, each order once, lists all orders now and then, and counts every
// unexpected response. Then it repeats every cancel that got 204: the order must still be cancelled. It exits with 0 if nothing
// was lost. Seed orders first (`admin seed --orders 100000 --force`), use a key with a large quota, pass the `nextId` of the
// previous drill as FIRST_ID, and never run it against real orders.
import { Agent, request } from 'node:http';

const [baseUrl = '', seconds = '30', firstId = '1'] = process.argv.slice(2);
const key = process.env.PETSTORE_KEY;
if (!URL.canParse(baseUrl) || key === undefined) {
  process.stderr.write('usage: PETSTORE_KEY=… node deploy/drill.mjs BASE_URL [SECONDS [FIRST_ID]]\n');
  process.exit(2);
}

const CONNECTIONS = 16;
const LIST_EVERY = 1_000;
/** Requests per second and connection: a fixed rate, so that slow responses become visible. */
const PACE = 25;

/** A first cancel with `order_already_cancelled` is unexpected: a proxy has sent the request twice. */
const EXPECTED = new Set(['GET 200', 'DELETE 204']);

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
const responses = {};
const failures = [];
const cancelled = [];
let slowestMs = 0;
let nextId = Number(firstId);
let turns = 0;

/** @returns {Promise<string | undefined>} the error code or the status; undefined if there was no complete response */
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
      // Of a list only the end matters.
      res.on('data', (chunk) => (body = res.statusCode < 400 ? '' : body + chunk));
      res.on('error', fail);
      res.on('end', () => {
        slowestMs = Math.max(slowestMs, performance.now() - startedMs);
        resolve(
          res.statusCode < 400 ? String(res.statusCode) : (codeOf(body) ?? `${res.statusCode} without an error code`),
        );
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
  const response = await send(method, path);
  const name = `${method} ${response ?? 'interrupted'}`;
  responses[name] = (responses[name] ?? 0) + 1;
  if (response !== undefined && !EXPECTED.has(name)) {
    failures.push({ at: new Date().toISOString(), method, path, response });
  }
  return response;
}

/** The first three of every six generated orders are pending. */
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
      const response = await send('DELETE', `/${id}`);
      lost += response === 'order_already_cancelled' ? 0 : 1;
    }
  }),
);
agent.destroy();
const report = {
  responses,
  slowestMs: Math.round(slowestMs),
  cancelled: cancelled.length,
  cancelsLost: lost,
  failures: failures.length,
  firstFailures: failures.slice(0, 10),
  nextId,
};
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
// A drill without a single cancel proves nothing.
process.exitCode = failures.length === 0 && lost === 0 && cancelled.length > 0 ? 0 : 1;
