/** Control characters, and the marks that break a line or change the direction of a text; for a regular expression with `u`. */
export const UNPRINTABLE = '[\\p{Cc}\\p{Zl}\\p{Zp}\\p{Bidi_Control}]';

/**
 * @param {string} character
 * @returns {string} as JSON writes it: `\u001b`
 */
export function escapeOf(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
