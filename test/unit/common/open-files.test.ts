import { openFilesProblem } from '../../../src/common/open-files.js';
import { CLI } from '../../helpers/build.js';
import { runProcess } from '../../helpers/petstore.js';

const LIMITED = ['sh', '-c', 'ulimit -n 400; exec "$@"', 'sh', process.execPath, CLI];
const PROBLEM = 'at most 400 open files, too few for MAX_CONNECTIONS=300: raise the limit (ulimit -n) to 500';

test.each([
  [1_000, 1_199, 'at most 1199 open files, too few for MAX_CONNECTIONS=1000: raise the limit (ulimit -n) to 1200'],
  [1_000, 1_200, undefined],
])('openFilesProblem for %p connections and %p files: %p', (connectionsMax, filesMax, expected) => {
  expect(openFilesProblem(connectionsMax, filesMax)).toBe(expected);
});

it('petstore doctor and the start of the service report a limit of open files that is too low', async () => {
  const environment = { MAX_CONNECTIONS: '300', DATABASE_URL: 'postgresql://app@127.0.0.1:1/x', PORT: '1' };
  const { stdout } = await runProcess([...LIMITED, 'doctor'], environment);
  expect(stdout).toContain(`warning  open files           ${PROBLEM}\n`);
  // It may not listen on this port, or somebody else does.
  const service = await runProcess([...LIMITED, 'serve'], { ...environment, HOST: '192.0.2.1' });
  expect(service.stdout).toContain(`"${PROBLEM}"`);
});
