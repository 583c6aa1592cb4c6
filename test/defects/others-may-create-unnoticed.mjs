/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'prisma/engine/others-in-schema.mjs',
  find: 'if (rows.length === 0) return undefined;',
  replace: 'if (rows.length >= 0) return undefined;',
  suites: ['commands/keys-errors'],
};
