import type { Check } from '../check.js';
import { ifKnown, type RedisNodeFacts } from '../facts.js';
import { error, type Finding, ok, warning } from '../finding.js';

const REMEDY =
  'Set appendonly to yes, as deploy/redis/redis.conf does: otherwise a restart of Redis resets quotas and lifts bans.';

export const redisPersistence: Check = {
  name: 'Redis persistence',
  evaluate: ({ redis }) => ifKnown(redis, evaluate),
};

function evaluate(nodes: readonly RedisNodeFacts[]): Finding {
  const failing = nodes.find(({ lastWriteFailed }) => lastWriteFailed);
  if (failing !== undefined) {
    return error(
      `${failing.address} could not write its data to disk`,
      'Check the disk and the log of Redis; it may reject writes until it can save.',
    );
  }
  const weakest = nodes.find(({ hasAppendOnlyFile }) => !hasAppendOnlyFile);
  if (weakest === undefined) {
    return ok('append-only file');
  }
  switch (weakest.hasSnapshots) {
    case true:
      return warning(`${weakest.address} has snapshots only, which miss the last minutes`, REMEDY);
    case false:
      return warning(`${weakest.address} persists nothing`, REMEDY);
    default:
      return warning(`${weakest.address} has no append-only file`, REMEDY);
  }
}
