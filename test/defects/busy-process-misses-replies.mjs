/** @type {import('./run.mjs').Defect} */
export default {
  promise: 5,
  file: 'src/rate-limit/redis-quota-store.ts',
  find: 'withDeadline(response, RESPONSE_TIMEOUT_MS)',
  replace: `withDeadline(
        Promise.race([
          response,
          new Promise<never>((_resolve, reject) => setTimeout(reject, RESPONSE_TIMEOUT_MS, new Error('late'))),
        ]),
        RESPONSE_TIMEOUT_MS,
      )`,
  suites: ['outages/redis'],
};
