// node fetch.mjs [ORDER_ID]
import { setTimeout as sleep } from 'node:timers/promises';

const { PETSTORE_URL = '', PETSTORE_KEY } = process.env;
const TEMPORARY = [429, 502, 503, 504];
// Not repeated like a lost connection, for which `fetch` rejects, too.
if (!/^https?:/.test(PETSTORE_URL)) throw new Error('PETSTORE_URL must be like https://api.example.com/v1.');

// `JSON.parse` rounds numbers above 2^53, so it gets ids as strings.
const parseExact = (text) =>
  JSON.parse(text.replace(/"(id|petId)":(-?\d+)/g, '"$1":"$2"'), (key, value) =>
    key === 'id' || key === 'petId' ? BigInt(value) : value,
  );

// Retry-After is in seconds or, from some proxies, a date. 0 when it is missing, invalid or in the past.
function retryAfterSeconds(value) {
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return seconds > 0 ? seconds : 0;
}

// An error of the service has a code; a proxy may send HTML, so its status is used.
function codeOf({ status, text }) {
  try {
    return JSON.parse(text).code ?? status;
  } catch {
    return status;
  }
}

async function send(method, path, headers = {}) {
  // Throws if the URL or the key is malformed.
  const request = new Request(PETSTORE_URL.replace(/\/$/, '') + path, {
    method,
    headers: { ...headers, Authorization: `Bearer ${PETSTORE_KEY}` },
  });
  for (let attempt = 1; ; attempt++) {
    let waitSeconds = 0;
    let error;
    try {
      const response = await fetch(request, { signal: AbortSignal.timeout(60_000) });
      const text = await response.text(); // fails if the connection breaks before the end
      if (!TEMPORARY.includes(response.status)) {
        return { status: response.status, etag: response.headers.get('ETag'), text };
      }
      waitSeconds = retryAfterSeconds(response.headers.get('Retry-After'));
      error = new Error(text);
    } catch (cause) {
      error = cause;
    }
    if (attempt === 5 || waitSeconds > 90) throw error;
    await sleep((waitSeconds + Math.random() * 2 ** (attempt - 1)) * 1000);
  }
}

const list = await send('GET', '/store/orders');
if (list.status !== 200) throw new Error(list.text);
for (const order of parseExact(list.text)) console.log(`${order.id} ${order.petId}`);

if (list.etag !== null) {
  const again = await send('GET', '/store/orders', { 'If-None-Match': list.etag });
  console.log(again.status === 304 ? 'unchanged' : 'changed');
}

const [orderId] = process.argv.slice(2);
if (orderId !== undefined) {
  const response = await send('DELETE', `/store/orders/${orderId}`);
  const code = response.status === 204 ? 'cancelled' : codeOf(response);
  // If the response to an earlier attempt was lost, the order is cancelled already.
  const isCancelled = ['cancelled', 'order_already_cancelled'].includes(code);
  console.log(`${orderId}: ${isCancelled ? 'cancelled' : code}`);
  process.exitCode = isCancelled ? 0 : 1;
}
