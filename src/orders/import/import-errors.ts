/** Reading stops after this many errors. */
export const IMPORT_ERRORS_MAX = 20;
/** Longer texts are cut: what they quote is better read in the file. */
const FIELD_CHARACTERS_MAX = 50;
const PROBLEM_CHARACTERS_MAX = 200;

/** Collects the errors in a file, up to {@link IMPORT_ERRORS_MAX}. */
export class ImportErrors {
  readonly #errors: { readonly line: number; readonly text: string }[] = [];

  /**
   * @param line of the file, counted from 1
   * @param problem continues a sentence that begins with the field or line
   * @param field undefined when the error concerns the whole line
   * @throws {Error} when so many have been added
   */
  add(line: number, problem: string, field?: string): void {
    const where = field === undefined ? `line ${line}` : `line ${line}, ${excerpt(field, FIELD_CHARACTERS_MAX)}`;
    this.#errors.push({ line, text: `  - ${where} ${excerpt(problem, PROBLEM_CHARACTERS_MAX)}` });
    if (this.#errors.length === IMPORT_ERRORS_MAX) {
      this.throwIfAny();
    }
  }

  /** @throws {Error} with all errors, in the order of the lines */
  throwIfAny(): void {
    if (this.#errors.length > 0) {
      const texts = this.#errors.toSorted((a, b) => a.line - b.line).map(({ text }) => text);
      const rest = texts.length < IMPORT_ERRORS_MAX ? [] : ['The rest of the file was not checked.'];
      throw new Error(['Errors in the file; nothing was imported:', ...texts, ...rest].join('\n'));
    }
  }
}

/** In one line. */
function excerpt(text: string, length: number): string {
  const line = text.replace(/\p{Cc}+/gu, ' ');
  return line.length > length ? `${line.slice(0, length)}…` : line;
}
