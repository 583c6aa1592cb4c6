/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/order-encoder.ts',
  find: `      if (kind === 'time') {
        to = endTime`,
  replace: `      if (kind === 'digits') {
        to = value + out.write(String(Number(lines.toString('latin1', from, at - 1))), value);
      } else if (kind === 'time') {
        to = endTime`,
  suites: ['list/200-304'],
};
