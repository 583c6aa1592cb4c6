import { diskResult } from '../../../src/cli/doctor/host.js';
import { runChecks } from '../../../src/cli/doctor/run-checks.js';

test.each([
  [0, 'warning'],
  [1_023, 'warning'],
  [1_024, 'ok'],
  [1_048_576, 'ok'],
])('doctor finds %i MiB for the embedded database: %s', (freeMib, status) => {
  expect(diskResult(freeMib)).toMatchObject({ status, message: `${freeMib} MiB free for .data/` });
});

test('doctor checks the disk of the embedded database only', async () => {
  const namesOf = async (variables: NodeJS.ProcessEnv): Promise<string[]> => {
    const { checks } = await runChecks({ ...variables, PORT: '0', METRICS_PORT: '0' });
    return checks.map(({ name }) => name);
  };
  expect(await namesOf({})).toContain('disk');
  expect(await namesOf({ DATABASE_URL: 'postgresql://app@127.0.0.1:1/petstore' })).not.toContain('disk');
});
