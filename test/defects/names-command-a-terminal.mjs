/** @type {import('./run.mjs').Defect} */
export default {
  promise: 8,
  file: 'prisma/engine/printable.mjs',
  find: "return text.replace(new RegExp(`(?![\\\\n\\\\t])${UNPRINTABLE}`, 'gu'), escapeOf);",
  replace: 'return text;',
  suites: ['commands/keys-errors'],
};
