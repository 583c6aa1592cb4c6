import Sequencer from '@jest/test-sequencer';
import { LONG_SUITES } from '../../jest.config.js';

const LONG = LONG_SUITES.map(
  (suite) => new RegExp(suite.replace('**', '').replace('*', '[^/]+').replaceAll('.', '[.]')),
);

/** @param {{ path: string }} suite */
const isLong = ({ path }) => path.includes('/test/matrix/') || LONG.some((pattern) => pattern.test(path));

/**
 * Starts the long suites first, so that short ones fill the cores at the end. Jest knows how long they take only from an earlier
 * run, and would order a fresh clone by the size of the files.
 */
export default class LongFirst extends Sequencer {
  /** @param {readonly import('@jest/test-result').Test[]} suites */
  sort(suites) {
    const sorted = super.sort([...suites]);
    return [...sorted.filter(isLong), ...sorted.filter((suite) => !isLong(suite))];
  }
}
