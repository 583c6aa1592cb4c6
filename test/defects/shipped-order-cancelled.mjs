/** @type {import('./run.mjs').Defect} */
export default {
  promise: 1,
  file: 'src/orders/orders.repository.ts',
  find: "SELECT CASE status WHEN 'pending' THEN id END",
  replace: "SELECT CASE WHEN status IN ('pending', 'shipped') THEN id END",
  suites: ['cancel/204-409'],
};
