// npm start -- [order id to cancel]
import { PetstoreClient } from './client.ts';

const { PETSTORE_URL = 'http://127.0.0.1:3000/v1', PETSTORE_KEY = '' } = process.env;
const client = new PetstoreClient({ baseUrl: PETSTORE_URL, apiKey: PETSTORE_KEY });

const list = await client.listOrders();
let count = 0;
for await (const order of list?.orders ?? []) {
  count++;
  if (count <= 3) {
    console.log(`order ${order.id} for pet ${order.petId}`);
  }
}
console.log(`${count} orders`);

const etag = list?.etag;
if (etag !== undefined) {
  const changed = await client.listOrders({ etag });
  console.log(changed === undefined ? 'the list has not changed since' : 'the list has changed since');
}

const [orderId] = process.argv.slice(2);
if (orderId !== undefined) {
  const outcome = await client.cancelOrder(BigInt(orderId));
  console.log(`order ${orderId}: ${outcome}`);
  process.exitCode = ['cancelled', 'already_cancelled'].includes(outcome) ? 0 : 1;
}
