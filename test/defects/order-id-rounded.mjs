/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/order-id.ts',
  find: 'CANONICAL_DECIMAL.test(text) ? BigInt(text)',
  replace: 'CANONICAL_DECIMAL.test(text) ? BigInt(Number(text))',
  suites: ['pure/order-id'],
};
