/** Control characters, and the marks that break a line or change the direction of a text; for a regular expression with `u`. */
export const UNPRINTABLE: string;

/** Such a character as JSON writes it: `\u001b`. */
export function escapeOf(character: string): string;

/** Escapes what would command a terminal, but for ends of lines and tabs. */
export function printable(text: string): string;
