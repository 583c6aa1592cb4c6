import { client } from './petstore/client.gen';
import { cancelOrder, listOrders } from './petstore/sdk.gen';

const { PETSTORE_URL = '', PETSTORE_KEY = '' } = process.env;
client.setConfig({ baseUrl: PETSTORE_URL.replace(/\/$/, ''), auth: PETSTORE_KEY });
client.interceptors.response.use(async (response) => {
  if (response.status !== 200) return response;
  const text = await response.text();
  return new Response(text.replace(/"(id|petId)":(-?\d+)/g, '"$1":"$2"'), response);
});

const list = await listOrders({ throwOnError: true });
for (const order of list.data) console.log(`${order.id} ${order.petId}`);

const etag = list.response.headers.get('ETag');
if (etag !== null) {
  // A 304 is an error for the generated client.
  const again = await listOrders({ headers: { 'If-None-Match': etag } });
  console.log(again.response?.status === 304 ? 'unchanged' : 'changed');
}

const orderId = BigInt(process.argv[2] ?? 0);
const { error, response } = await cancelOrder({ path: { orderId } });
// A proxy may send HTML, which has no code.
const code = response?.status === 204 ? 'cancelled' : (error?.code ?? String(response?.status ?? error));
console.log(`${orderId}: ${code === 'order_already_cancelled' ? 'cancelled' : code}`);
process.exitCode = ['cancelled', 'order_already_cancelled'].includes(code) ? 0 : 1;
