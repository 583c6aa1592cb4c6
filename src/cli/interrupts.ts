import type pg from 'pg';
import { inBackground } from '../common/in-background.js';
import { openClient } from '../database/open-client.js';

const CANCEL = `
  SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = 'petstore-cli'`;

/** Lets Ctrl-C end a command in order, so that it can say what was changed; a second Ctrl-C ends the process at once. */
export class Interrupts {
  readonly #controller = new AbortController();
  #isIgnored = false;
  readonly #onInterrupt = (): void => {
    if (!this.#isIgnored) {
      this.#controller.abort();
      inBackground(this.#cancelStatement());
    }
  };

  private constructor(
    private readonly databaseUrl: string,
    private readonly pid: number,
  ) {
    process.once('SIGINT', this.#onInterrupt);
  }

  /** @param db the connection whose statement Ctrl-C cancels */
  static async during(db: pg.Client, databaseUrl: string): Promise<Interrupts> {
    // Not the process id of the connection, which a pooler makes up.
    const { rows } = await db.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    return new Interrupts(databaseUrl, rows[0]?.pid ?? 0);
  }

  /** Aborted by Ctrl-C. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** From now on Ctrl-C changes nothing: the commit has begun. */
  ignore(): void {
    this.#isIgnored = true;
  }

  stop(): void {
    process.off('SIGINT', this.#onInterrupt);
  }

  async #cancelStatement(): Promise<void> {
    try {
      const client = await openClient(this.databaseUrl, { connectionTimeoutMillis: 2_000 });
      await client.query(CANCEL, [this.pid]).finally(() => client.end());
    } catch {
      // The command ends after its statement.
    }
  }
}
