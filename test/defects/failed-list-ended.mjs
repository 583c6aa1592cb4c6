/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/order-list.responder.ts',
  find: `      // Before the pipeline closes it.
      breakIfBegun(res);
      throw error;`,
  replace: '      void [error, res];',
  suites: ['list/interrupted'],
};
