/** After so many the rest of the file is not read: what is wrong is known by then. */
export const IMPORT_ERRORS_MAX = 20;
/** Longer problems quote a value that is better looked at in the file. */
const PROBLEM_CHARACTERS_MAX = 200;

/** One thing that is wrong with a file of orders. */
export interface Fault {
  /** The line of the file, counted from 1. */
  readonly line: number;
  /** Undefined when the line as a whole is wrong. */
  readonly field?: string;
  /** Follows the name of the field or line as the rest of a sentence. */
  readonly problem: string;
}

/** A file is not imported, not even in part. The message names every fault that was found, in the order of the lines. */
export class ImportRejected extends Error {
  constructor(readonly faults: readonly Fault[]) {
    const count = faults.length === 1 ? 'a fault' : `${faults.length} faults`;
    const head =
      faults.length < IMPORT_ERRORS_MAX
        ? `The file has ${count}`
        : `These are the first ${IMPORT_ERRORS_MAX} faults of the file`;
    super(`${head}; nothing was imported:\n${faults.map((fault) => `  - ${describe(fault)}`).join('\n')}`);
    this.name = 'ImportRejected';
  }
}

/** Gathers what is wrong, up to a bound. */
export class ImportErrorList {
  readonly #faults: Fault[] = [];

  get count(): number {
    return this.#faults.length;
  }

  /** @throws {ImportRejected} when there are enough */
  add(fault: Fault): void {
    this.#faults.push(fault);
    if (this.#faults.length === IMPORT_ERRORS_MAX) {
      this.refuseIfAny();
    }
  }

  /** @throws {ImportRejected} when there are any */
  refuseIfAny(): void {
    if (this.#faults.length > 0) {
      throw new ImportRejected(this.#faults.toSorted((a, b) => a.line - b.line));
    }
  }
}

/** Without control characters: what a file holds must not reach a terminal as a command. */
function describe({ line, field, problem }: Fault): string {
  const text = problem.replace(/\p{Cc}+/gu, ' ');
  const shown = text.length > PROBLEM_CHARACTERS_MAX ? `${text.slice(0, PROBLEM_CHARACTERS_MAX)}…` : text;
  return `line ${line}${field === undefined ? '' : `, ${field}`} ${shown}`;
}
