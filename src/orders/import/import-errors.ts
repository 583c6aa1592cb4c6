/** Reading stops after this many errors. */
export const IMPORT_ERRORS_MAX = 20;
/** Longer error texts are cut: they quote a value that is better read in the file. */
const PROBLEM_CHARACTERS_MAX = 200;

/** An error in a line of the file. */
export interface LineError {
  /** Line of the file, counted from 1. */
  readonly line: number;
  /** Undefined when the error concerns the whole line. */
  readonly field?: string;
  /** Continues a sentence that begins with the field or line. */
  readonly problem: string;
}

/** The file is invalid and nothing was imported. The message lists the errors in the order of the lines. */
export class ImportRejected extends Error {
  constructor(readonly errors: readonly LineError[]) {
    const count =
      errors.length < IMPORT_ERRORS_MAX
        ? `${errors.length} ${errors.length === 1 ? 'error' : 'errors'}`
        : `at least ${IMPORT_ERRORS_MAX} errors`;
    super(
      `The file has ${count}; nothing was imported:\n${errors.map((error) => `  - ${describe(error)}`).join('\n')}`,
    );
    this.name = 'ImportRejected';
  }
}

/** Collects errors up to {@link IMPORT_ERRORS_MAX}. */
export class ImportErrorList {
  readonly #errors: LineError[] = [];

  get count(): number {
    return this.#errors.length;
  }

  /** @throws {ImportRejected} when the list is full */
  add(error: LineError): void {
    this.#errors.push(error);
    if (this.#errors.length === IMPORT_ERRORS_MAX) {
      this.throwIfAny();
    }
  }

  /** @throws {ImportRejected} when there are errors */
  throwIfAny(): void {
    if (this.#errors.length > 0) {
      throw new ImportRejected(this.#errors.toSorted((a, b) => a.line - b.line));
    }
  }
}

/** Without control characters, which could be commands to a terminal. */
function describe({ line, field, problem }: LineError): string {
  const text = problem.replace(/\p{Cc}+/gu, ' ');
  const shown = text.length > PROBLEM_CHARACTERS_MAX ? `${text.slice(0, PROBLEM_CHARACTERS_MAX)}…` : text;
  return `line ${line}${field === undefined ? '' : `, ${field}`} ${shown}`;
}
