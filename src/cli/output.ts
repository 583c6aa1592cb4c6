/** Stdout cannot be written to: the disk is full, or the reader of the pipe has ended. */
export class OutputError extends Error {
  readonly isClosedPipe: boolean;

  constructor(cause: NodeJS.ErrnoException) {
    super(`Cannot write to stdout (${cause.code ?? cause.message})`, { cause });
    this.isClosedPipe = cause.code === 'EPIPE';
  }
}

/** @throws {OutputError} */
export function writeOut(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (error) {
        reject(new OutputError(error));
      } else {
        resolve();
      }
    });
  });
}

/**
 * Prints the output of a command: one JSON document with `--json`, otherwise text.
 * @throws {OutputError}
 */
export function print(json: boolean | undefined, document: unknown, text: string): Promise<void> {
  return writeOut(json === true ? `${JSON.stringify(document, null, 2)}\n` : `${text}\n`);
}

/** Prints the result of a committed change. A failure to print is a warning: the command has succeeded. */
export async function printResult(json: boolean | undefined, document: unknown, text: string): Promise<void> {
  try {
    await print(json, document, text);
  } catch (error) {
    if (!(error instanceof OutputError)) {
      throw error;
    }
    if (!error.isClosedPipe) {
      warn(`${error.message}; the changes are committed.`);
    }
  }
}

export function warn(message: string): void {
  process.stderr.write(`warning: ${message}\n`);
}
