/** @type {import('./run.mjs').Defect} */
export default {
  promise: 2,
  file: 'src/database/session-settings.ts',
  find: "  timezone: 'UTC',\n",
  replace: '',
  suites: ['deploy/service-role'],
};
