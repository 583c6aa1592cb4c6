// node fetch.mjs [ORDER_ID]
import { setTimeout as sleep } from 'node:timers/promises';

const { PETSTORE_URL, PETSTORE_KEY } = process.env;
const TEMPORARY = [429, 502, 503, 504];

// `context.source` has the digits as they were received. On Node 20, use the package lossless-json.
const parseExact = (text) =>
  JSON.parse(text, (key, value, context) => (key === 'id' || key === 'petId' ? BigInt(context.source) : value));

async function send(method, path, headers = {}) {
  for (let attempt = 1; ; attempt++) {
    let waitSeconds = 0;
    let error;
    try {
      const response = await fetch(`${PETSTORE_URL}${path}`, {
        method,
        headers: { ...headers, Authorization: `Bearer ${PETSTORE_KEY}` },
        signal: AbortSignal.timeout(60_000),
      });
      const text = await response.text(); // fails if the connection breaks before the end
      if (!TEMPORARY.includes(response.status)) {
        return { status: response.status, etag: response.headers.get('ETag'), text };
      }
      waitSeconds = Number(response.headers.get('Retry-After') ?? 0);
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

const again = await send('GET', '/store/orders', { 'If-None-Match': list.etag });
console.log(again.status === 304 ? 'unchanged' : 'changed');

const [orderId] = process.argv.slice(2);
if (orderId !== undefined) {
  const { status, text } = await send('DELETE', `/store/orders/${orderId}`);
  const code = status === 204 ? 'cancelled' : JSON.parse(text).code;
  console.log(`${orderId}: ${code === 'order_already_cancelled' ? 'cancelled' : code}`);
}
