import { setImmediate as nextTurn } from 'node:timers/promises';
import { FairSlots } from './fair-slots.js';

/** Spreads work that would begin in one turn of the event loop over several turns, so that others go on between them. */
export class Turns {
  readonly #slots: FairSlots;

  /** @param perTurn how much may begin in one turn */
  constructor(perTurn: number) {
    this.#slots = new FairSlots(perTurn, { ms: Infinity, error: () => new Error('Nobody waits without end.') });
  }

  /** Resolves when the owner may begin; owners take turns. */
  next(owner: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = (): Promise<void> => {
        resolve();
        return nextTurn();
      };
      this.#slots.run(owner, begin).catch(reject);
    });
  }
}
