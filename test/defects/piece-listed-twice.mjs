/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/list-image.ts',
  find: 'pieces[next]?.block }',
  replace: 'pieces[next + 1]?.block }',
  suites: ['list/memory'],
};
