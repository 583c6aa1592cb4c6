/** How far apart two consecutive cancels are: a prime, so that every order comes once before any comes twice. */
const STRIDE = 611_953;

/**
 * Makes the requests of a load run, one after the other.
 * @param {object} spec
 * @param {'GET' | 'DELETE'} spec.method
 * @param {string} spec.path
 * @param {Record<string, string>} spec.headers
 * @param {'cancels' | 'addresses' | undefined} spec.vary `cancels`: another order each time, scattered over the table,
 *   until all `spec.orders` had their turn; `addresses`: another client address each time
 * @param {number} [spec.orders]
 * @param {number} [spec.limit] cancels that are made at most
 * @returns {() => string | undefined} undefined when there is nothing left to ask
 */
export function messages({ method, path, headers, vary, orders, limit = orders }) {
  const head = Object.entries({ host: '127.0.0.1', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  const rest = ` HTTP/1.1\r\n${head.join('')}`;
  if (vary === 'cancels') {
    let turn = 0;
    return () => (turn < limit ? `${method} ${path}/${1 + ((turn++ * STRIDE) % orders)}${rest}\r\n` : undefined);
  }
  if (vary === 'addresses') {
    return () => `${method} ${path}${rest}x-forwarded-for: ${randomAddress()}\r\n\r\n`;
  }
  const message = `${method} ${path}${rest}\r\n`;
  return () => message;
}

/** One of the 16 million of 10.0.0.0/8: too many for one to come often enough to be limited. */
function randomAddress() {
  const bits = Math.floor(Math.random() * 0x1000000);
  return `10.${bits >> 16}.${(bits >> 8) & 0xff}.${bits & 0xff}`;
}
