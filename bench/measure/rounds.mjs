/**
 * Visits each contestant once per round, starting with a different one in each round, so that changes on the machine
 * affect all of them.
 */
export async function interleave(contestants, rounds, visit) {
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < contestants.length; turn++) {
      await visit(contestants[(round + turn) % contestants.length], round);
    }
  }
}
