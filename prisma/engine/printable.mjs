/** Control characters, and the marks that break a line or change the direction of a text; for a regular expression with `u`. */
export const UNPRINTABLE = '[\\p{Cc}\\p{Zl}\\p{Zp}\\p{Bidi_Control}]';

/**
 * @param {string} character
 * @returns {string} as JSON writes it: `\u001b`
 */
export function escapeOf(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * Escapes what would command a terminal, but for ends of lines and tabs: names and values come from outside.
 *
 * @param {string} text
 */
export function printable(text) {
  return text.replace(new RegExp(`(?![\\n\\t])${UNPRINTABLE}`, 'gu'), escapeOf);
}
