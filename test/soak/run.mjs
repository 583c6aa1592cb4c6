// npm run test:soak -- --minutes 10: hours of trouble in minutes, against real processes. Builds nothing itself.
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const minutes = Number(values.minutes);
if (!(minutes > 0)) {
  console.error('--minutes takes a number above 0.');
  process.exit(2);
}
const { status } = spawnSync('npx', ['jest', '--config', 'test/soak/jest.config.js'], {
  stdio: 'inherit',
  env: { ...process.env, SOAK_MINUTES: String(minutes) },
});
process.exit(status ?? 1);
