/** A client for TypeScript that is generated without options for ids. */
export interface DefaultClient {
  readonly generator: string;
  /** In the folder of `openapi.json`; the first word is a program of an npm package. */
  readonly command: string;
  /** TypeScript that lists, and sets `orderId` to the second id of the list. */
  readonly list: string;
  /** TypeScript that cancels the order `orderId`. */
  readonly cancel: string;
}

export const DEFAULT_CLIENTS: readonly DefaultClient[] = [
  {
    generator: '@hey-api/openapi-ts',
    command: 'openapi-ts -i openapi.json -o petstore',
    list: `
      import { client } from './petstore/client.gen';
      import { cancelOrder, listOrders } from './petstore/sdk.gen';
      client.setConfig({ baseUrl, auth: key });
      const orderId = (await listOrders({ throwOnError: true })).data[1]?.id;`,
    cancel: 'await cancelOrder({ path: { orderId }, throwOnError: true });',
  },
  {
    generator: 'orval',
    command: 'orval --input openapi.json --output petstore.ts --client fetch',
    list: `
      import { cancelOrder, listOrders } from './petstore';
      const { fetch } = globalThis;
      globalThis.fetch = (path, init) => fetch(baseUrl + String(path), { ...init, headers });
      const { data } = await listOrders();
      const orderId = Array.isArray(data) ? data[1]?.id : undefined;`,
    cancel: 'await cancelOrder(orderId);',
  },
  {
    generator: 'swagger-typescript-api',
    command: 'swagger-typescript-api generate -p openapi.json -o . -n petstore.ts',
    list: `
      import { Api } from './petstore';
      const { store } = new Api({ baseUrl, baseApiParams: { headers } });
      const orderId = (await store.listOrders()).data[1]?.id;`,
    cancel: 'await store.cancelOrder(orderId);',
  },
  {
    generator: 'openapi-typescript with openapi-fetch',
    command: 'openapi-typescript openapi.json -o petstore.d.ts',
    list: `
      import createClient from 'openapi-fetch';
      import type { paths } from './petstore';
      const client = createClient<paths>({ baseUrl, headers });
      const orderId = (await client.GET('/store/orders')).data?.[1]?.id;`,
    cancel: `await client.DELETE('/store/orders/{orderId}', { params: { path: { orderId } } });`,
  },
  {
    generator: 'oazapfts',
    command: 'oazapfts openapi.json petstore.ts',
    list: `
      import { cancelOrder, defaults, listOrders } from './petstore';
      Object.assign(defaults, { baseUrl, headers });
      const response = await listOrders();
      const orderId = 'data' in response && Array.isArray(response.data) ? response.data[1]?.id : undefined;`,
    cancel: 'await cancelOrder(orderId);',
  },
];

/** The whole program. It compiles only if ids are numbers, and prints the id of the order that it cancels. */
export function programOf({ list, cancel }: DefaultClient): string {
  return `
    const { PETSTORE_URL: baseUrl = '', PETSTORE_KEY: key = '' } = process.env;
    const headers = { authorization: 'Bearer ' + key };
    ${list}
    if (orderId === undefined) throw new Error('No order.');
    const isNumber: number extends typeof orderId ? true : false = true;
    ${cancel}
    console.log(isNumber && String(orderId));`;
}

/** Prints the ids of the list in `orders.json`; needs the type `Order` that quicktype generates. */
export const GO_PROGRAM = `package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	file, err := os.Open("orders.json")
	if err != nil {
		panic(err)
	}
	var orders []Order
	if err := json.NewDecoder(file).Decode(&orders); err != nil {
		panic(err)
	}
	for _, order := range orders {
		fmt.Println(*order.ID, *order.PetID)
	}
}
`;
