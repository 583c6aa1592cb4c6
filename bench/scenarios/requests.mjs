/** The requests that the load runs make. */
const ORDERS_PATH = '/v1/store/orders';

const bearer = (key) => ({ authorization: `Bearer ${key}` });

/** Cancels another order each time, until all had their turn. */
export const cancels = (key, orders) => ({
  method: 'DELETE',
  path: ORDERS_PATH,
  headers: bearer(key),
  vary: 'cancels',
  orders,
});

/** Asks whether the list has changed. */
export const poll = (key, etag) => ({
  method: 'GET',
  path: ORDERS_PATH,
  headers: { ...bearer(key), 'if-none-match': etag },
});

/** A request whose key decides the answer; the order is never looked at. */
export const refused = (key) => ({ method: 'DELETE', path: `${ORDERS_PATH}/1`, headers: bearer(key) });

/** The same, each time from another client address, as a trusted proxy would say it. */
export const refusedFromManyAddresses = (key) => ({ ...refused(key), vary: 'addresses' });
