/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/list-images.ts',
  find: 'const isSame = (index: number): boolean => before?.sums[index] === sums[index];',
  replace: 'const isSame = (index: number): boolean => index < sums.length;',
  suites: ['orders/list/list-cache'],
};
