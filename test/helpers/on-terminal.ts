import { stripVTControlCharacters } from 'node:util';

/**
 * What is formatted for stdout, without its colours.
 * @param columns the width of the terminal; undefined for a pipe
 */
export function onTerminal(columns: number | undefined, format: () => string): string {
  const before = Object.getOwnPropertyDescriptors(process.stdout);
  try {
    Object.assign(process.stdout, { isTTY: columns !== undefined, columns });
    return stripVTControlCharacters(format());
  } finally {
    for (const name of ['isTTY', 'columns'] as const) {
      Reflect.deleteProperty(process.stdout, name);
      if (name in before) {
        Object.defineProperty(process.stdout, name, before[name]);
      }
    }
  }
}
