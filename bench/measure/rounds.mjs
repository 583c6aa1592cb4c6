/**
 * Lets contestants take turns: each once a round, and another one first in each round, so that whatever changes on the
 * machine meanwhile, or in the wake of a neighbour, falls on all of them.
 */
export async function interleave(contestants, rounds, visit) {
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < contestants.length; turn++) {
      await visit(contestants[(round + turn) % contestants.length], round);
    }
  }
}
