import { cancelOrder, listOrders } from './petstore';

const list = await listOrders();
if (list.status !== 200) throw new Error(JSON.stringify(list.data));
for (const order of list.data) console.log(`${order.id} ${order.petId}`);

const etag = list.headers.get('ETag');
if (etag !== null) {
  const again = await listOrders({ headers: { 'If-None-Match': etag } });
  console.log(again.status === 304 ? 'unchanged' : 'changed');
}

const orderId = BigInt(process.argv[2] ?? 0);
const cancel = await cancelOrder(orderId);
const code = cancel.status === 204 ? 'cancelled' : (cancel.data?.code ?? String(cancel.status));
console.log(`${orderId}: ${code === 'order_already_cancelled' ? 'cancelled' : code}`);
process.exitCode = ['cancelled', 'order_already_cancelled'].includes(code) ? 0 : 1;
