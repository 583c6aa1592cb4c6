// node axios.mjs [ORDER_ID]; npm install axios
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';

const { PETSTORE_URL, PETSTORE_KEY } = process.env;
const TEMPORARY = [429, 502, 503, 504];

const api = axios.create({
  baseURL: PETSTORE_URL,
  headers: { Authorization: `Bearer ${PETSTORE_KEY}` },
  timeout: 60_000,
  responseType: 'json',
  transitional: { silentJSONParsing: false },
  // `context.source` has the digits as they were received. On Node 20, set transformResponse and use lossless-json.
  parseReviver: (key, value, context) => (key === 'id' || key === 'petId' ? BigInt(context.source) : value),
});

api.interceptors.response.use(undefined, async (error) => {
  const { config, response } = error;
  const attempt = config?.attempt ?? 1;
  const waitSeconds = Number(response?.headers['retry-after'] ?? 0);
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

const again = await api.get('/store/orders', {
  headers: { 'If-None-Match': list.headers.etag },
  validateStatus: (status) => status === 200 || status === 304,
});
console.log(again.status === 304 ? 'unchanged' : 'changed');

const [orderId] = process.argv.slice(2);
if (orderId !== undefined) {
  const { status, data } = await api.delete(`/store/orders/${orderId}`, {
    validateStatus: (status) => [204, 404, 409].includes(status),
  });
  const code = status === 204 ? 'cancelled' : data.code;
  console.log(`${orderId}: ${code === 'order_already_cancelled' ? 'cancelled' : code}`);
}
