/** The requests of the runs. */
const ORDERS_PATH = '/v1/store/orders';

const bearer = (key) => ({ authorization: `Bearer ${key}` });

/** Cancels a different order each time, until there are none left. */
export const cancels = (key, orders) => ({
  method: 'DELETE',
  path: ORDERS_PATH,
  headers: bearer(key),
  vary: 'cancels',
  orders,
});

/** The whole list. */
export const listAs = (key, encoding) => ({
  method: 'GET',
  path: ORDERS_PATH,
  headers: { ...bearer(key), 'accept-encoding': encoding },
});

/** A conditional request for the list. */
export const poll = (key, etag) => ({
  method: 'GET',
  path: ORDERS_PATH,
  headers: { ...bearer(key), 'if-none-match': etag },
});

/** A request that is rejected because of its key, before the order is read. */
export const rejected = (key) => ({ method: 'DELETE', path: `${ORDERS_PATH}/1`, headers: bearer(key) });

/** The same, each time with a different client address in `X-Forwarded-For`. */
export const rejectedFromManyAddresses = (key) => ({ ...rejected(key), vary: 'addresses' });
