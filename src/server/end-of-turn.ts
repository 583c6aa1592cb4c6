let turn: Promise<void> | undefined;

/**
 * Resolves at the end of this turn of the event loop, after all readable sockets have been read. Written one by one
 * between the reads, each rejection would wake its client, which costs more than the rest of it.
 */
export function endOfTurn(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined;
      resolve();
    });
  });
  return turn;
}
