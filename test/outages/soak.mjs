// node test/outages/soak.mjs --minutes 10: the failures of postgres-under-traffic.test.ts once each, then at random for so long.
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const minutes = Number(values.minutes);
if (!(minutes > 0)) {
  console.error(`--minutes must be a number greater than 0 (got "${values.minutes}").`);
  process.exit(2);
}
const { status } = spawnSync('npx', ['jest', 'test/outages/postgres-under-traffic'], {
  stdio: 'inherit',
  env: { ...process.env, SOAK_MINUTES: String(minutes) },
});
process.exit(status ?? 1);
