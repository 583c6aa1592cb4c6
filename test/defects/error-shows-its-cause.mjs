/** @type {import('./run.mjs').Defect} */
export default {
  promise: 6,
  file: 'src/all-exceptions.filter.ts',
  find: 'new DomainError(code, undefined, { cause: exception })',
  replace: 'new DomainError(code, exception instanceof Error ? exception.message : undefined, { cause: exception })',
  suites: ['server/internal-errors'],
};
