// npm start -- [order id to cancel]
import { PetstoreClient } from './client.ts';

const { PETSTORE_URL = 'http://127.0.0.1:3000/v1', PETSTORE_KEY = '' } = process.env;
const client = new PetstoreClient({ baseUrl: PETSTORE_URL, apiKey: PETSTORE_KEY });

const list = await client.listOrders();
let [count, open] = [0, 0];
for await (const order of list?.orders ?? []) {
  count++;
  open += order.complete === true ? 0 : 1;
}
console.log(`${count} orders, ${open} of them not fulfilled`);

const unchanged = await client.listOrders(list === undefined ? {} : { etag: list.etag });
console.log(unchanged === undefined ? 'the list has not changed since' : 'the list has changed since');

const [orderId] = process.argv.slice(2);
if (orderId !== undefined) {
  console.log(`order ${orderId}: ${await client.cancelOrder(BigInt(orderId))}`);
}
