/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/order-list-encoder.ts',
  find: 'for (let byte = row[at]!; isDigit(byte); byte = row[++at]!) out[to++] = byte;',
  replace: `while (isDigit(row[at]!)) at++;
  out.write(String(Number(row.toString('latin1', first, at))), to);`,
  suites: ['orders/list-orders'],
};
