/** The distance between two consecutive cancels: a prime, so that no order repeats before all have been cancelled. */
const STRIDE = 611_953;

/**
 * Generates the requests of a run.
 * @param {object} spec
 * @param {'GET' | 'DELETE'} spec.method
 * @param {string} spec.path
 * @param {Record<string, string>} spec.headers
 * @param {'cancels' | 'addresses' | undefined} spec.vary `cancels`: a different order each time, scattered over the
 *   table, until all `spec.orders` are cancelled; `addresses`: a different client address each time
 * @param {number} [spec.orders]
 * @returns {() => string | undefined} undefined when there are no requests left
 */
export function messages({ method, path, headers, vary, orders }) {
  const head = Object.entries({ host: '127.0.0.1', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  const rest = ` HTTP/1.1\r\n${head.join('')}`;
  if (vary === 'cancels') {
    let turn = 0;
    return () => (turn < orders ? `${method} ${path}/${1 + ((turn++ * STRIDE) % orders)}${rest}\r\n` : undefined);
  }
  if (vary === 'addresses') {
    return () => `${method} ${path}${rest}x-forwarded-for: ${randomAddress()}\r\n\r\n`;
  }
  const message = `${method} ${path}${rest}\r\n`;
  return () => message;
}

/** One of the 16 million addresses of 10.0.0.0/8, so that no address reaches its limit. */
function randomAddress() {
  const bits = Math.floor(Math.random() * 0x1000000);
  return `10.${bits >> 16}.${(bits >> 8) & 0xff}.${bits & 0xff}`;
}
