/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'src/config/database-url.ts',
  find: `    'file',
  );`,
  replace: `    'file',
  )?.replace(/sslmode=[a-z-]+/, 'sslmode=no-verify');`,
  suites: ['commands/database-tls'],
};
