// node got.mjs [ORDER_ID]; Node 22 or newer, npm install got@16.1.0
import got from 'got';

const { PETSTORE_URL, PETSTORE_KEY } = process.env;

const api = got.extend({
  prefixUrl: PETSTORE_URL,
  headers: { authorization: `Bearer ${PETSTORE_KEY}` },
  responseType: 'json',
  // `context.source` has the digits as they were received.
  parseJson: (text) =>
    JSON.parse(text, (key, value, context) => (key === 'id' || key === 'petId' ? BigInt(context.source) : value)),
  timeout: { request: 60_000 },
  retry: {
    limit: 4,
    statusCodes: [429, 502, 503, 504],
    // A list whose connection broke.
    errorCodes: [...got.defaults.options.retry.errorCodes, 'ERR_HTTP_CONTENT_LENGTH_MISMATCH'],
    maxRetryAfter: 90_000,
    // got waits for exactly `Retry-After`, in seconds or a date; this adds a random part. 0 means: give up.
    calculateDelay: ({ computedValue, attemptCount }) =>
      computedValue === 0 ? 0 : computedValue + Math.random() * 1000 * 2 ** (attemptCount - 1),
  },
  hooks: { beforeError: [(error) => Object.assign(error, { message: error.response?.body?.code ?? error.message })] },
});

const list = await api.get('store/orders');
for (const order of list.body) console.log(`${order.id} ${order.petId}`);

if (list.headers.etag !== undefined) {
  const again = await api.get('store/orders', { headers: { 'if-none-match': list.headers.etag } });
  console.log(again.statusCode === 304 ? 'unchanged' : 'changed');
}

const [orderId] = process.argv.slice(2);
if (orderId !== undefined) {
  const { statusCode, body } = await api.delete(`store/orders/${orderId}`, { throwHttpErrors: false });
  const code = statusCode === 204 ? 'cancelled' : (body?.code ?? statusCode); // A proxy may send HTML.
  // If the response to an earlier attempt was lost, the order is cancelled already.
  const isCancelled = ['cancelled', 'order_already_cancelled'].includes(code);
  console.log(`${orderId}: ${isCancelled ? 'cancelled' : code}`);
  process.exitCode = isCancelled ? 0 : 1;
}
