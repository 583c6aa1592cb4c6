import type { Check } from '../check.js';
import { ifKnown, type RedisNodeFacts } from '../facts.js';
import { error, type Finding, ok, warning } from '../finding.js';

const NEARLY_FULL = 0.9;
const REMEDY = 'Set maxmemory-policy to noeviction: an evicted count gives its caller a new quota and lifts its ban.';

export const redisMemory: Check = {
  name: 'Redis eviction',
  evaluate: ({ redis }) => ifKnown(redis, evaluate),
};

function evaluate(nodes: readonly RedisNodeFacts[]): Finding {
  const evicting = nodes.filter(({ evictionPolicy }) => evictionPolicy !== 'noeviction');
  const worst = evicting.find(({ memoryLimitBytes }) => memoryLimitBytes > 0) ?? evicting[0];
  if (worst !== undefined) {
    return worst.memoryLimitBytes > 0
      ? error(`${worst.evictionPolicy} on ${worst.address}: counts are evicted`, REMEDY)
      : warning(`${worst.evictionPolicy} on ${worst.address}, so far without maxmemory`, REMEDY);
  }
  const full = nodes.find(
    ({ memoryLimitBytes, memoryUsedBytes }) =>
      memoryLimitBytes > 0 && memoryUsedBytes >= NEARLY_FULL * memoryLimitBytes,
  );
  return full === undefined
    ? ok('noeviction')
    : warning(
        `noeviction, and the memory of ${full.address} is nearly full`,
        'Raise maxmemory: when it is full, each process counts limits in its own memory.',
      );
}
