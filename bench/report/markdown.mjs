/** @param {string[]} header @param {(string | number)[][]} rows @returns {string} */
export function markdown(header, rows) {
  return [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
