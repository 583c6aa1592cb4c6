import { readFileSync } from 'node:fs';
import { escapeOf, UNPRINTABLE } from '../../prisma/engine/printable.mjs';

/** Whether a text is as expected. */
type Accepts = (text: string) => boolean;

/** Reads environment variables, and collects what is invalid about them. An empty variable counts as not set. */
export class Environment {
  /** Each names the variable, gives its value unless it is secret, and says what is expected. */
  readonly problems: string[] = [];

  constructor(private readonly variables: NodeJS.ProcessEnv) {}

  /**
   * @param expected continues the sentence "must be …"
   * @param secret no message quotes the text; `file`: it may be in a file instead, whose path is in `NAME_FILE`
   * @returns undefined when the variable is not set or invalid
   */
  text(name: string, expected: string, accepts: Accepts, secret?: 'file' | 'inline'): string | undefined {
    const text = secret === 'file' ? this.#textOrFile(name) : this.#text(name);
    if (text === undefined || accepts(text)) {
      return text;
    }
    this.problems.push(`${name} must be ${expected}${secret === undefined ? ` (got ${quoted(text)})` : hintOf(text)}`);
    return undefined;
  }

  /** @param parse returns undefined for a text that is not as expected */
  value<T>(name: string, expected: string, parse: (text: string) => T | undefined): T | undefined {
    const text = this.text(name, expected, (each) => parse(each) !== undefined);
    return text === undefined ? undefined : parse(text);
  }

  /** An integer in a range that includes both ends. */
  integer(name: string, lowest: number, highest: number): number | undefined {
    return this.value(name, `an integer from ${lowest} to ${highest}`, (text) => {
      const number = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
      return number >= lowest && number <= highest ? number : undefined;
    });
  }

  #text(name: string): string | undefined {
    return this.variables[name] === '' ? undefined : this.variables[name];
  }

  #textOrFile(name: string): string | undefined {
    const text = this.#text(name);
    const path = this.#text(`${name}_FILE`);
    if (path === undefined) {
      return text;
    }
    if (text !== undefined) {
      this.problems.push(`${name} and ${name}_FILE are both set; set one of them`);
      return text;
    }
    try {
      return readFileSync(path, 'utf8').trim();
    } catch (error) {
      // Does not quote the path, because the secret itself may have been set by mistake.
      const { code = 'unreadable' } = error as NodeJS.ErrnoException;
      this.problems.push(`${name}_FILE must be the path of a readable file (${code})`);
      return undefined;
    }
  }
}

/** Files of variables may have line ends of Windows, and a carriage return would overwrite the message on a terminal. */
function quoted(text: string): string {
  return `"${text.replace(new RegExp(UNPRINTABLE, 'gu'), escapeOf)}"`;
}

/** Why a secret is rejected that looks valid and works from a file. */
function hintOf(secret: string): string {
  return secret === secret.trim() ? '' : ' (got one with a line break or white space at its beginning or end)';
}
