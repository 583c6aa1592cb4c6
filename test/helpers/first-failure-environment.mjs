import { TestEnvironment } from 'jest-environment-node';

/** An environment that skips the tests of a suite after the first one that fails: with a defect, many of them would wait for their timeouts. */
export default class FirstFailureEnvironment extends TestEnvironment {
  #hasFailed = false;

  /** @param {import('@jest/types').Circus.AsyncEvent | import('@jest/types').Circus.SyncEvent} event */
  handleTestEvent(event) {
    if (event.name === 'test_done') {
      this.#hasFailed ||= event.test.errors.length > 0;
    } else if (event.name === 'test_start' && this.#hasFailed) {
      event.test.mode = 'skip';
    }
  }
}
