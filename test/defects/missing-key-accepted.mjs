/** @type {import('./run.mjs').Defect} */
export default {
  promise: 4,
  file: 'src/api-keys/api-key.guard.ts',
  find: 'if (key instanceof DomainError) {',
  replace: `if (req.headers.authorization === undefined) {
      req.caller = { id: address, plan: 'enterprise', quotas: ANONYMOUS_QUOTAS };
      return true;
    }
    if (key instanceof DomainError) {`,
  suites: ['requests/401'],
};
