/** A bar of block characters, like `███░░`. @param share from 0 to 1 */
export function barOf(share: number, width: number): string {
  const full = Math.round(share * width);
  return `${'█'.repeat(full)}${'░'.repeat(width - full)}`;
}
