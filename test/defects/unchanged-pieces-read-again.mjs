/** @type {import('./run.mjs').Defect} */
export default {
  promise: 3,
  file: 'src/orders/list/list-image.ts',
  find: 'sums.map((sum, index) => sum !== image.sums[index])',
  replace: 'sums.map((_, index) => index <= image.sums.length)',
  suites: ['list/memory'],
};
