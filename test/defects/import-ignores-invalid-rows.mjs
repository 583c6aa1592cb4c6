/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/orders/import/import-orders.ts',
  find: '  errors.throwIfAny();\n',
  replace: '',
  suites: ['orders/import/import-orders'],
};
