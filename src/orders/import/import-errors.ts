/** Reading stops after this many errors. */
export const IMPORT_ERRORS_MAX = 20;
/** Longer texts are cut: what they quote is better read in the file. */
const FIELD_CHARACTERS_MAX = 50;
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
    const rest = errors.length < IMPORT_ERRORS_MAX ? '' : '\nThe rest of the file was not checked.';
    super(`Errors in the file; nothing was imported:\n${errors.map(describe).join('\n')}${rest}`);
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

function describe({ line, field, problem }: LineError): string {
  const where = field === undefined ? `line ${line}` : `line ${line}, ${excerpt(field, FIELD_CHARACTERS_MAX)}`;
  return `  - ${where} ${excerpt(problem, PROBLEM_CHARACTERS_MAX)}`;
}

/** In one line. */
function excerpt(text: string, length: number): string {
  const line = text.replace(/\p{Cc}+/gu, ' ');
  return line.length > length ? `${line.slice(0, length)}…` : line;
}
