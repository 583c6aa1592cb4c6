let waiting: (() => void)[] = [];

/**
 * Does something at the end of this turn of the event loop, when every socket that can be read has been. Answers that are
 * known at once are written then, together: written one by one between the reads, each wakes its reader from sleep, and
 * that costs more than everything else about it.
 */
export function atEndOfTurn(work: () => void): void {
  if (waiting.push(work) === 1) {
    setImmediate(doAll);
  }
}

function doAll(): void {
  const all = waiting;
  waiting = [];
  for (const work of all) {
    work();
  }
}
