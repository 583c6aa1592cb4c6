/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/orders/list/list-version.ts',
  find: `export function nameOf({ catalogue, tokens }: NameRow): string {
  return \`\${catalogue}-\${wrapped(tokens)}-\${REPRESENTATION}\`;`,
  replace: `export function nameOf({ tokens }: NameRow): string {
  return \`\${wrapped(tokens)}-\${REPRESENTATION}\`;`,
  suites: ['orders/list/list-integrity'],
};
