import { Api } from './petstore';

/** `json()` keeps ids exact (Node 22 or newer). */
function exact(response: Response): Response {
  const clone = response.clone.bind(response);
  return Object.assign(response, {
    clone: () => exact(clone()),
    json: async (): Promise<unknown> => JSON.parse(await response.text(), exactIds),
  });
}

function exactIds(key: string, value: unknown, context?: { source: string }): unknown {
  return key === 'id' || key === 'petId' ? BigInt(context!.source) : value;
}

const { PETSTORE_URL = '', PETSTORE_KEY } = process.env;
const { store } = new Api({
  baseUrl: PETSTORE_URL.replace(/\/$/, ''),
  baseApiParams: { headers: { Authorization: `Bearer ${PETSTORE_KEY}` } },
  customFetch: async (...request) => exact(await fetch(...request)),
});

const list = await store.listOrders();
if (list.error !== null) throw list.error;
for (const order of list.data) console.log(`${order.id} ${order.petId}`);

const etag = list.headers.get('ETag');
if (etag !== null) {
  const again: Response = await store.listOrders({ headers: { 'If-None-Match': etag } }).catch((thrown) => thrown);
  console.log(again.status === 304 ? 'unchanged' : 'changed');
}

const orderId = BigInt(process.argv[2] ?? 0);
const cancel: Response = await store.cancelOrder(orderId).catch((thrown) => thrown);
// A proxy may send HTML, which has no code.
const error = cancel.status === 204 ? { code: 'cancelled' } : await cancel.json().catch(() => ({}));
const code: string = error.code ?? String(cancel.status);
console.log(`${orderId}: ${code === 'order_already_cancelled' ? 'cancelled' : code}`);
process.exitCode = ['cancelled', 'order_already_cancelled'].includes(code) ? 0 : 1;
