// node axios.mjs [ORDER_ID]; npm install axios@1.21.1
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';

const { PETSTORE_URL = '', PETSTORE_KEY } = process.env;
const TEMPORARY = [429, 502, 503, 504];
// Not repeated like a lost connection, which has no response either.
if (!/^https?:/.test(PETSTORE_URL)) throw new Error('PETSTORE_URL must be like https://api.example.com/v1.');

// Retry-After is in seconds or, from some proxies, a date. 0 when it is missing, invalid or in the past.
function retryAfterSeconds(value) {
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return seconds > 0 ? seconds : 0;
}

const api = axios.create({
  baseURL: PETSTORE_URL,
  headers: { Authorization: `Bearer ${PETSTORE_KEY}` },
  timeout: 60_000,
  responseType: 'json',
  transitional: { silentJSONParsing: false },
  // `JSON.parse` rounds numbers above 2^53, so it gets ids as strings.
  transformResponse: [
    (text) => (text ?? '').replace(/"(id|petId)":(-?\d+)/g, '"$1":"$2"'),
    ...axios.defaults.transformResponse,
  ],
  parseReviver: (key, value) => (key === 'id' || key === 'petId' ? BigInt(value) : value),
});

api.interceptors.response.use(undefined, async (error) => {
  const { config, response } = error;
  const attempt = config?.attempt ?? 1;
  const waitSeconds = retryAfterSeconds(response?.headers['retry-after']);
  // Without a response, the connection was lost. ERR_BAD_RESPONSE with status 200 is an incomplete list.
  const isTemporary = response === undefined || response.status === 200 || TEMPORARY.includes(response.status);
  if (config === undefined || !isTemporary || attempt === 5 || waitSeconds > 90) {
    throw new Error(response ? JSON.stringify(response.data) : error.message, { cause: error });
  }
  await sleep((waitSeconds + Math.random() * 2 ** (attempt - 1)) * 1000);
  return api.request({ ...config, attempt: attempt + 1 });
});

const list = await api.get('/store/orders');
for (const order of list.data) console.log(`${order.id} ${order.petId}`);

if (list.headers.etag !== undefined) {
  const again = await api.get('/store/orders', {
    headers: { 'If-None-Match': list.headers.etag },
    validateStatus: (status) => status === 200 || status === 304,
  });
  console.log(again.status === 304 ? 'unchanged' : 'changed');
}

const [orderId] = process.argv.slice(2);
if (orderId !== undefined) {
  const { status, data } = await api.delete(`/store/orders/${orderId}`, {
    validateStatus: (status) => !TEMPORARY.includes(status),
    transitional: { silentJSONParsing: true }, // A proxy may send HTML.
  });
  const code = status === 204 ? 'cancelled' : (data?.code ?? status);
  // If the response to an earlier attempt was lost, the order is cancelled already.
  const isCancelled = ['cancelled', 'order_already_cancelled'].includes(code);
  console.log(`${orderId}: ${isCancelled ? 'cancelled' : code}`);
  process.exitCode = isCancelled ? 0 : 1;
}
