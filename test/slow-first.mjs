// The order of the test files. jest would go by their size on a machine that has no times of earlier runs.
import Sequencer from "@jest/test-sequencer";

/** Tests that start servers and processes take longest, and wait for much of that time: the short ones fill the gaps. */
const SLOW = /\/test\/(?:adapters|browser|cli|cluster|examples|faults|notifier)\//u;

const rank = ({ path }) => (SLOW.test(path) ? 0 : 1);

export default class SlowFirst extends Sequencer {
  sort(tests) {
    return tests.toSorted((one, other) => rank(one) - rank(other) || (one.path < other.path ? -1 : 1));
  }
}
