import { openFilesProblem } from '../../../src/common/open-files.js';

test.each([
  [1_000, 1_199, 'at most 1199 open files, too few for MAX_CONNECTIONS=1000: raise the limit (ulimit -n) to 1200'],
  [1_000, 1_200, undefined],
])('openFilesProblem for %p connections and %p files: %p', (connectionsMax, filesMax, expected) => {
  expect(openFilesProblem(connectionsMax, filesMax)).toBe(expected);
});
