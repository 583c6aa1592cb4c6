/** Cuts the keys in a text, also incomplete ones, to the part that is stored in plain text. */
export function redactKeys(text: string): string {
  return text.replaceAll(/(pst_\w{6})\w+/gi, '$1…');
}
